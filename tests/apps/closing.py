"""Says which process has answered, and closes descriptors of its server's: those that are what the path names."""

import os

from own_pid import application as says_who


def is_listener(entry):
    """A TCP socket that listens has state 0A in the kernel's table, which names sockets by their inodes."""
    with open("/proc/self/net/tcp") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return entry in {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}


def application(environ, start_response):
    kind = environ["PATH_INFO"].strip("/")
    wanted = {"epoll": "anon_inode:[eventpoll]".__eq__, "listener": is_listener}.get(kind)
    for fd in os.listdir("/proc/self/fd") if wanted else ():
        try:
            if wanted(os.readlink(f"/proc/self/fd/{fd}")):
                os.close(int(fd))
        except OSError:
            continue  # that with which the folder is read
    return says_who(environ, start_response)
