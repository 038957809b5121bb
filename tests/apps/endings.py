"""Applications that have something to end: what did is written to the file that ENDINGS names, in its order."""

import atexit
import concurrent.futures
import ctypes
import logging
import logging.handlers
import multiprocessing
import os
import sys
import threading
import time

TOLD = os.environ["ENDINGS"]
STUCK = os.environ.get("STUCK", "")
EXECUTOR = concurrent.futures.ThreadPoolExecutor(1)
CHILDREN = []
LOCK = threading.Lock()


def tell(text):
    with open(TOLD, "a") as file:
        file.write(f"{os.getpid()} {text}\n")


def deadlock():
    # With a time, because gevent sees by itself that nobody could ever release it.
    while LOCK.acquire(timeout=60) or True:
        pass


def hold_the_interpreter():
    ctypes.PyDLL(None).sleep(600)


def raise_something():
    raise RuntimeError("raised at the end")


def wait_for_the_main_thread():
    threading.main_thread().join()
    tell("thread")


def child():
    """What multiprocessing ends at exit: a child that is a daemon."""
    one = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True)
    one.start()
    CHILDREN.append(one)
    return one.pid


atexit.register(tell, "first callback")
if STUCK == "for a while":
    atexit.register(time.sleep, 1)
    atexit.register(tell, "a long callback")
if STUCK == "callback":
    atexit.register(deadlock)
if STUCK == "interpreter":
    atexit.register(hold_the_interpreter)
atexit.register(tell, "last callback")
atexit.register(raise_something)

memory = logging.handlers.MemoryHandler(1000, target=logging.FileHandler(TOLD + ".log", delay=True))
logging.getLogger("endings").addHandler(memory)
logging.getLogger("endings").propagate = False


def begin():
    """Start what is to end; the id of a child."""
    logging.getLogger("endings").warning("a line that is kept in memory")
    EXECUTOR.submit(lambda: (time.sleep(0.2), tell("executor")))
    threading.Thread(target=wait_for_the_main_thread, name="waiting").start()
    if STUCK == "thread":
        # A greenlet would start a daemon where nothing is said.
        daemon = False if "gevent" in sys.modules else None
        threading.Thread(target=deadlock, name="deadlocked", daemon=daemon).start()
    sys.stdout.write("printed and not flushed\n")
    return child()


def application(environ, start_response):
    body = f"{os.getpid()} {begin() if environ['PATH_INFO'] == '/begin' else 0}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


async def asynchronous(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            event = await receive()
            await send({"type": event["type"] + ".complete"})
            if event["type"] == "lifespan.shutdown":
                return tell("lifespan")
    import asyncio

    if scope["path"] == "/begin":
        loop = asyncio.get_running_loop()
        generator = numbers()
        await anext(generator)
        CHILDREN.append(generator)
        loop.run_in_executor(None, lambda: (time.sleep(0.2), tell("the loop's executor")))
    body = f"{os.getpid()} {begin() if scope['path'] == '/begin' else 0}".encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def numbers():
    try:
        yield 1
    finally:
        tell("generator")
