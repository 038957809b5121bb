"""The pong that leaves a proof: one byte appended to a file for each call, as in article B.

A tool that counts errors as replies cannot hide behind it: the file's size is the number of times that Python ran.
"""

import os

from pong import application as pong

_descriptor = None


def application(environ, start_response):
    """Append a byte, then answer as pong does. O_APPEND makes it right for many processes."""
    global _descriptor
    if _descriptor is None:
        _descriptor = os.open(os.environ["LAB_HITS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(_descriptor, b".")
    return pong(environ, start_response)
