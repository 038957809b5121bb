"""Tells what `forehand.request()` says in it, by Flask and Starlette; `forehand` alone is imported, as people do."""

import asyncio
import json
import sys
import threading
import time

import forehand
from flask import Flask
from flask import request as flask_request
from forehand.route import flask as tell_flask
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute

OUTSIDE = forehand.request()
NAMES = ("id", "trace_id", "span_id", "deadline", "route", "phases")


def now():
    found = forehand.request()
    return found and {name: getattr(found, name) for name in NAMES}


def in_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(now()))
    thread.start()
    thread.join()
    return found[0]


def elsewhere():
    """Where no request is at work."""
    found = []
    thread = threading.Thread(target=lambda: found.append(forehand.request()))
    thread.start()
    thread.join()
    return [OUTSIDE, *found]


application = Flask(__name__)
tell_flask(application)


@application.get("/now/<name>")
def flask_now(name):
    before = now()
    time.sleep(0.05)
    return {"before": before, "after": now(), "thread": in_thread(), "elsewhere": elsewhere(),
            "parent": flask_request.headers.get("traceparent")}  # fmt: skip


@application.get("/parts")
def flask_parts():
    def parts():
        for _ in range(3):
            yield json.dumps(now()["id"]) + " "
            time.sleep(0.01)

    return application.response_class(parts())


async def asked():
    await asyncio.sleep(0)
    return now()


async def star_now(request):
    before = now()
    await asyncio.sleep(0.05)
    return JSONResponse({
        "before": before, "after": now(), "elsewhere": elsewhere(), "parent": request.headers.get("traceparent"),
        "child": await asyncio.create_task(asked()), "to_thread": await asyncio.to_thread(now), "thread": in_thread(),
    })  # fmt: skip


async def star_unasked(request):
    child = await asyncio.create_task(asked())
    return JSONResponse([child, await asyncio.to_thread(now), now()["id"]])


def behind():
    found = now()
    sys.stderr.write(f"behind {found['id']} {found['deadline']} {found['phases']}\n")


async def star_behind(request):
    return JSONResponse(now()["id"], background=BackgroundTask(behind_task))


async def behind_task():
    behind()


async def star_socket(socket):
    await socket.accept()
    await socket.send_json(now())
    await socket.close()


app = Starlette(
    routes=[
        Route("/now/{name}", star_now),
        Route("/unasked", star_unasked),
        Route("/behind", star_behind),
        WebSocketRoute("/socket", star_socket),
    ]
)
