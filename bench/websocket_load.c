/* A client for bench/beside_uvicorn.py: so many WebSockets, each sends a message of 64 bytes and waits for it to
 * come back. websocket_load PORT SOCKETS SECONDS prints how many did. Anything but the message ends it with status 1.
 * In C, so that the client on the other processor is not what is measured. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 64, HEAD_OUT = 6, HEAD_IN = 2, MOST = 1024 };

static const char handshake[] =
    "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
static unsigned char out[HEAD_OUT + SIZE], in[HEAD_IN + SIZE];

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void give_up(const char *why) {
    perror(why);
    exit(1);
}

static int open_socket(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    char answer[4096];
    size_t have = 0;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0) give_up("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (send(fd, handshake, sizeof handshake - 1, 0) < 0) give_up("handshake");
    while (have < 4 || memcmp(answer + have - 4, "\r\n\r\n", 4)) {
        ssize_t got = have < sizeof answer ? recv(fd, answer + have, 1, 0) : -1;
        if (got <= 0) give_up("the answer to the handshake");
        have += got;
    }
    if (memcmp(answer, "HTTP/1.1 101", 12)) give_up("not 101");
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int port = atoi(argv[1]), sockets = atoi(argv[2]), poll = epoll_create1(0);
    long done = 0;
    if (sockets < 1 || sockets > MOST) return 2;
    /* Final, text; masked with zeros, which leaves the content as it is (RFC 6455, 5.2). */
    out[0] = in[0] = 0x81;
    out[1] = 0x80 | SIZE;
    in[1] = SIZE;
    memset(out + HEAD_OUT, 'm', SIZE);
    memset(in + HEAD_IN, 'm', SIZE);
    for (int i = 0; i < sockets; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        event.data.fd = open_socket(port);
        epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
        if (send(event.data.fd, out, sizeof out, 0) != sizeof out) give_up("send");
    }
    for (double end = now() + atof(argv[3]); now() < end;) {
        struct epoll_event events[MOST];
        int ready = epoll_wait(poll, events, MOST, 1000);
        for (int i = 0; i < ready; i++) {
            unsigned char got[sizeof in + 1];
            if (recv(events[i].data.fd, got, sizeof got, 0) != sizeof in || memcmp(got, in, sizeof in)) give_up("echo");
            if (send(events[i].data.fd, out, sizeof out, 0) != sizeof out) give_up("send");
            done++;
        }
    }
    printf("%ld\n", done);
    return 0;
}
