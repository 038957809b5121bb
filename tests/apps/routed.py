"""The same two pages by four frameworks, each with a key in its path."""

import django
from django.conf import settings

if not settings.configured:
    settings.configure(
        SECRET_KEY="test", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=["forehand.route.Django"]
    )
    django.setup()

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from fastapi import APIRouter, FastAPI
from flask import Flask, abort, redirect, request
from forehand.route import flask as tell_flask
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Host, Mount, Route, Router
from werkzeug.middleware.dispatcher import DispatcherMiddleware

urlpatterns = [path("users/<str:name>/", lambda request, name: HttpResponse(name))]
django_wsgi = get_wsgi_application()
django_asgi = get_asgi_application()

flask = Flask(__name__)


@flask.before_request
def early():
    """Answers before any view, as a login does; it was there before the server was told of."""
    return "early" if "early" in request.args else None


tell_flask(flask)
flask.add_url_rule("/users/<name>/", view_func=lambda name: name, endpoint="user")


async def user(request):
    return PlainTextResponse(request.path_params["name"])


hosted = Router([Route("/users/{name}", user)])
starlette = Starlette(
    routes=[
        Route("/users/{name}/", user),
        Mount("/of/{shop}", routes=[Route("/users/{name}", user)]),
        Mount("/in-{shop}/{part:path}/of", routes=[Route("/users/{name}", user)]),
        # What has no routes of its own, as a folder of files, and what is known by its host.
        Mount("/raw/{shop}", app=PlainTextResponse("raw")),
        Host("{shop}.example.com", app=Router([Mount("/in", app=hosted)])),
    ]
)
fastapi = FastAPI()


@fastapi.get("/users/{name}/")
async def fast_user(name: str) -> str:
    return name


# One router, included twice, and one in another.
lines = APIRouter(prefix="/lines")
orders = APIRouter(prefix="/orders/{order}")


@lines.get("/{name}")
async def line(name: str) -> str:
    return name


orders.include_router(lines)
fastapi.include_router(orders, prefix="/v1")
fastapi.include_router(orders, prefix="/v2")

# Each below a path of its own: what is matched has that before it.
fast_mounted = FastAPI()
fast_mounted.mount("/shop/of/{owner}", fastapi)
# As a folder of files.
fast_mounted.mount("/raw/{shop}", PlainTextResponse("raw"))
flask_mounted = DispatcherMiddleware(flask, {"/shop": flask})


def django_mounted(environ, start_response):
    """Below a path, as a front of several applications has it."""
    assert environ["PATH_INFO"].startswith("/shop/")
    environ["SCRIPT_NAME"], environ["PATH_INFO"] = "/shop", environ["PATH_INFO"].removeprefix("/shop")
    return django_wsgi(environ, start_response)


guarded = Flask("guarded")
tell_flask(guarded)


@guarded.before_request
def guard():
    """Nothing is had without a cookie, whether it is there or not."""
    if request.cookies:
        return None
    return redirect("/login") if "login" in request.path else abort(403)


guarded.add_url_rule("/orders/<int:n>", view_func=lambda n: str(n), endpoint="order")


def anything(environ, start_response):
    """Has a page for every path."""
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def long_route(environ, start_response):
    """Its routes have long names that begin alike."""
    environ["forehand.route"] = "/" + "long/" * 40 + environ["PATH_INFO"][1:]
    return anything(environ, start_response)


def plain(environ, start_response):
    """No framework: it says what it has matched."""
    environ["forehand.route"] = "/by/hand"
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
