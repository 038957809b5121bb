/* Preloaded by instructions.py: the monotonic clock goes slower, as slowly as a program does under valgrind, so that the
 * server takes no request for a slow one that is none. Times of timers are turned back. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 300, SECOND = 1000000000 };

static long long began;

static long long nanoseconds(const struct timespec *at) { return at->tv_sec * (long long)SECOND + at->tv_nsec; }

static struct timespec at(long long ns) { return (struct timespec){ns / SECOND, ns % SECOND}; }

__attribute__((constructor)) static void begin(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    began = nanoseconds(&now);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (began && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE))
        *now = at(began + (nanoseconds(now) - began) / TIMES);
    return result;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *wanted, struct itimerspec *old) {
    struct itimerspec real = *wanted;
    long long ns = nanoseconds(&real.it_value);
    if ((flags & TFD_TIMER_ABSTIME) && ns > began)
        real.it_value = at(began + (ns - began) * TIMES);
    return (int)syscall(SYS_timerfd_settime, fd, flags, &real, old);
}
