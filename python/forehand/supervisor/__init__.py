"""The process that keeps the workers: `plan.py` decides, `run.py` acts, `worker.py` is a child's life.

Knows: processes. Does not know: HTTP, or the application, which is never imported here.
"""
