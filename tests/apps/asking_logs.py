"""Logs a line in each view, by Django's LOGGING with `forehand.logging.Context`, and by Starlette behind a middleware
that has tasks of its own."""

import logging
import logging.config

import django
from django.conf import settings

if not settings.configured:
    LOGGING = {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"request": {"()": "forehand.logging.Context"}},
        "formatters": {"line": {"format": "[%(request_id)s %(trace_id)s %(span_id)s %(route)s] %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "filters": ["request"], "formatter": "line"}},
        "loggers": {"shop": {"handlers": ["stderr"], "level": "INFO", "filters": ["request"]}},
    }
    settings.configure(
        SECRET_KEY="test", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=["forehand.route.Django"],
        LOGGING=LOGGING,
    )  # fmt: skip
    django.setup()

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

log = logging.getLogger("shop")
log.info("imported")


def order(request, number):
    log.info("order %s", number)
    return HttpResponse(number)


urlpatterns = [path("orders/<int:number>/", order)]
django_wsgi = get_wsgi_application()
django_asgi = get_asgi_application()


def star_order(request):
    """Starlette runs it in a thread."""
    log.info("order %s", request.path_params["number"])
    return PlainTextResponse(str(request.path_params["number"]))


async def passed(request, call_next):
    return await call_next(request)


starlette = Starlette(
    routes=[Route("/orders/{number:int}/", star_order)], middleware=[Middleware(BaseHTTPMiddleware, dispatch=passed)]
)
