/* The floor of a server that calls Python: `raw.c`, and for each request the view of bench/pong.py, by the interpreter's C API.
 *
 *     cc -O2 $(python3-config --includes) -o floor bench/floor.c $(python3-config --ldflags --embed) && ./floor PORT bench
 *
 * It has no right to be a server: one environ for all requests, which nobody builds, a start_response that looks at nothing, a
 * head that was made before, the interpreter never let go of, no timeout, no limit, no statistics. What is above `raw` is what the
 * view itself costs between two turns of the kernel; what another server is above this is what it does for WSGI and for HTTP. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n"
                           "Date: Sat, 21 Nov 2026 00:00:00 GMT\r\n\r\n";
enum { HEAD_LEN = sizeof HEAD - 1, EVENTS = 512, IN = 65536 };

static PyObject *start_response(PyObject *self, PyObject *const *arguments, Py_ssize_t many) {
    (void)self, (void)arguments, (void)many;
    Py_RETURN_NONE;
}

static PyMethodDef START = {"start_response", (PyCFunction)(void (*)(void))start_response, METH_FASTCALL, NULL};

/* Ends where the interpreter has raised. */
static PyObject *checked(PyObject *object) {
    if (object == NULL) {
        PyErr_Print();
        exit(1);
    }
    return object;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("floor PORT FOLDER\n", stderr);
        return 2;
    }
    Py_Initialize();
    PyObject *path = PySys_GetObject("path"), *folder = checked(PyUnicode_FromString(argv[2]));
    PyList_Insert(path, 0, folder);
    PyObject *view = checked(PyObject_GetAttrString(checked(PyImport_ImportModule("pong")), "application"));
    PyObject *environ = checked(Py_BuildValue("{ssss}", "REQUEST_METHOD", "GET", "PATH_INFO", "/"));
    PyObject *arguments[] = {NULL, environ, checked(PyCFunction_New(&START, NULL))};

    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) {
        perror("floor");
        return 1;
    }
    int poll = epoll_create1(0);
    struct epoll_event interest = {.events = EPOLLIN, .data.fd = listener}, ready[EVENTS];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &interest);
    static char in[IN], out[EVENTS][256];
    for (int i = 0; i < EVENTS; i++) memcpy(out[i], HEAD, HEAD_LEN);
    for (;;) {
        int n = epoll_wait(poll, ready, EVENTS, -1), asked = 0, fds[EVENTS], is_last[EVENTS];
        /* All are read, then all are answered, then all replies are sent: the kernel, the view and the kernel again push one
         * another out of the caches once for each batch. */
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) {
                int peer;
                while ((peer = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) {
                    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    interest.events = EPOLLIN | EPOLLET;
                    interest.data.fd = peer;
                    epoll_ctl(poll, EPOLL_CTL_ADD, peer, &interest);
                }
                continue;
            }
            ssize_t got = recv(fd, in, IN, 0);
            if (got == 0) close(fd);
            if (got <= 0) continue;
            is_last[asked] = memmem(in, got, "Connection: close", 17) != NULL;
            fds[asked++] = fd;
        }
        for (int i = 0; i < asked; i++) {
            PyObject *reply = checked(PyObject_Vectorcall(view, arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL));
            PyObject *body = PyList_Check(reply) ? PyList_GetItem(reply, 0) : NULL;
            if (body == NULL || !PyBytes_Check(body) || PyBytes_GET_SIZE(body) != 5) return 1;
            memcpy(out[i] + HEAD_LEN, PyBytes_AS_STRING(body), 5);
            Py_DECREF(reply);
        }
        for (int i = 0; i < asked; i++) {
            send(fds[i], out[i], HEAD_LEN + 5, MSG_NOSIGNAL);
            if (is_last[i]) close(fds[i]);
        }
    }
}
