/* The floor: answers each blank line it reads with the same reply, parses nothing else.
 * What a server costs above this is its own. raw PORT */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPLY "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n" \
              "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nPong!"
#define LAST "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: close\r\n\r\nPong!"

static char input[1 << 16], output[256 * sizeof REPLY];

static void answer(int fd) {
    ssize_t size = recv(fd, input, sizeof input, 0);
    if (size <= 0) {
        if (size == 0) close(fd);
        return;
    }
    if (memmem(input, size, "Connection: close", 17)) {
        send(fd, LAST, sizeof LAST - 1, MSG_NOSIGNAL);
        close(fd);
        return;
    }
    size_t length = 0;
    for (char *at = input; length + sizeof REPLY < sizeof output; at += 4) {
        at = memmem(at, input + size - at, "\r\n\r\n", 4);
        if (!at) break;
        memcpy(output + length, REPLY, sizeof REPLY - 1);
        length += sizeof REPLY - 1;
    }
    send(fd, output, length, MSG_NOSIGNAL);
}

int main(int count, char **arguments) {
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), set = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(count > 1 ? atoi(arguments[1]) : 8000)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) return 1;
    struct epoll_event want = {.events = EPOLLIN, .data.fd = listener}, found[512];
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &want);
    for (;;) {
        int ready = epoll_wait(set, found, 512, -1);
        for (int i = 0; i < ready; i++) {
            if (found[i].data.fd != listener) {
                answer(found[i].data.fd);
                continue;
            }
            for (int fd; (fd = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0;) {
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                want = (struct epoll_event){.events = EPOLLIN | EPOLLET, .data.fd = fd};
                epoll_ctl(set, EPOLL_CTL_ADD, fd, &want);
            }
        }
    }
}
