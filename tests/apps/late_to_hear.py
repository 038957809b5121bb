"""Says which process has answered. The main thread of a worker that is asked for /late has something else to do for
half a second before it hears the next order."""

import ctypes
import time

from own_pid import application as says_who

ASKED = []


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def dawdle(_):
    time.sleep(0.5)
    return 0


def application(environ, start_response):
    if environ["PATH_INFO"] == "/late" and not ASKED:
        ASKED.append(True)
        # The interpreter calls it on its main thread, when that runs Python code next.
        ctypes.pythonapi.Py_AddPendingCall(dawdle, None)
    return says_who(environ, start_response)
