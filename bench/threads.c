/* What a machine has to give: bench/crowd_app.py as a server in C with threads, which has no interpreter that they would wait
 * for and no worker that clients would have to leave. Whoever is free takes whatever is ready. /work?N and /upload use WORK_NS of a
 * processor, /spin burns a second of one, /deadlock and /sleep wait, /stream sends parts. threads PORT */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define THREADS 128
#define WORK_NS 300000
#define SECOND_NS 1000000000L

static int set, listener;

static long used(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void burn(long ns) {
    long until = used() + ns;
    while (used() < until) {}
}

/* Burns until so much time has passed, however much of a processor that was, as what a deadline ends does. */
static void burn_for(long ns) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        for (volatile int i = 0; i < 10000; i++) {}
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begun.tv_sec) * SECOND_NS + now.tv_nsec - begun.tv_nsec < ns);
}

static void wait_for(long ms) {
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, 0);
}

static void say(int fd, const char *text) { send(fd, text, strlen(text), MSG_NOSIGNAL); }

static void stream(int fd) {
    say(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; i++) {
        say(fd, "5\r\npart\n\r\n");
        wait_for(50);
    }
    say(fd, "0\r\n\r\n");
}

/* One request. False: the connection has ended. */
static int answer(int fd) {
    char input[1 << 17];
    size_t length = 0;
    char *end = 0;
    while (!end) {
        ssize_t size = recv(fd, input + length, sizeof input - 1 - length, 0);
        if (size <= 0) return 0;
        length += size;
        input[length] = 0;
        end = strstr(input, "\r\n\r\n");
    }
    char *told = strcasestr(input, "\r\ncontent-length:");
    size_t all = end + 4 - input + (told && told < end ? strtoul(told + 17, 0, 10) : 0);
    while (length < all) {
        ssize_t size = recv(fd, input + length, sizeof input - 1 - length, 0);
        if (size <= 0) return 0;
        length += size;
    }
    int ends = !!strcasestr(input, "\r\nconnection: close");
    const char *path = strchr(input, ' ') + 1;
    if (!strncmp(path, "/stream", 7)) {
        stream(fd);
        return 0;
    }
    if (!strncmp(path, "/sleep", 6)) wait_for(2000);
    else if (!strncmp(path, "/deadlock", 9)) wait_for(1000);
    else if (!strncmp(path, "/spin", 5)) burn_for(SECOND_NS);
    else burn(WORK_NS);
    say(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\ndone\n");
    return !ends;
}

static void *serve(void *nothing) {
    for (;;) {
        struct epoll_event found, again = {.events = EPOLLIN | EPOLLONESHOT};
        if (epoll_wait(set, &found, 1, -1) < 1) continue;
        int fd = found.data.fd;
        if (fd == listener) {
            int on = 1;
            fd = accept4(listener, 0, 0, 0);
            again.data.fd = listener;
            epoll_ctl(set, EPOLL_CTL_MOD, listener, &again);
            if (fd < 0) continue;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            again.data.fd = fd;
            epoll_ctl(set, EPOLL_CTL_ADD, fd, &again);
        } else if (answer(fd)) {
            again.data.fd = fd;
            epoll_ctl(set, EPOLL_CTL_MOD, fd, &again);
        } else {
            close(fd);
        }
    }
    return nothing;
}

int main(int count, char **arguments) {
    int on = 1;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), set = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(count > 1 ? atoi(arguments[1]) : 8000)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) return 1;
    struct epoll_event want = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = listener};
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &want);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 19);
    for (int i = 1; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, serve, 0)) return 1;
    }
    serve(0);
}
