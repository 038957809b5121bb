"""The views of inner.py in a process that no other one may look into (prctl(2), PR_SET_DUMPABLE)."""

import ctypes

from inner import application as application

PR_SET_DUMPABLE = 4
ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
