"""Says which process has answered. The main thread of a worker takes a second and a half to write stacks."""

import time

from forehand.supervisor import stacks
from own_pid import application

__all__ = ["application"]
writes = stacks.all_threads


def dawdle():
    time.sleep(1.5)
    return writes()


stacks.all_threads = dawdle
