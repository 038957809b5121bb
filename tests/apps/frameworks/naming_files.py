"""Files as frameworks send them where a server does the work: Flask and Django by X-Sendfile, Starlette by its path.

FILES is the folder; each application has /NAME for a file in it, with what its framework says of one.
"""

import os

FOLDER = os.environ["FILES"]


def in_flask():
    from flask import Flask, send_file

    app = Flask(__name__)
    app.config["USE_X_SENDFILE"] = True

    @app.get("/<path:name>")
    def file(name):
        return send_file(f"{FOLDER}/{name}", as_attachment=True, download_name="named.txt")

    return app


def _django():
    import django
    from django.conf import settings
    from django.http import HttpResponse
    from django.urls import path

    def by_path(request, name):
        reply = HttpResponse(content_type="application/x-own", headers={"X-Sendfile": f"{FOLDER}/{name}"})
        reply.set_cookie("seen", "1")
        return reply

    def by_url(request, name):
        reply = HttpResponse(headers={"X-Accel-Redirect": f"/protected/{name}"})
        del reply["Content-Type"]
        return reply

    middleware = ["django.middleware.http.ConditionalGetMiddleware", "django.middleware.common.CommonMiddleware",
                  "django.middleware.gzip.GZipMiddleware"]  # fmt: skip
    settings.configure(SECRET_KEY="for tests only", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, MIDDLEWARE=middleware)
    django.setup()
    globals()["urlpatterns"] = [path("accel/<path:name>", by_url), path("<path:name>", by_path)]


def in_django():
    _django()
    from django.core.wsgi import get_wsgi_application

    return get_wsgi_application()


def in_django_asgi():
    _django()
    from django.core.asgi import get_asgi_application

    return get_asgi_application()


def in_starlette():
    from starlette.applications import Starlette
    from starlette.responses import FileResponse
    from starlette.routing import Route

    async def file(request):
        return FileResponse(f"{FOLDER}/{request.path_params['name']}", filename="named.txt")

    return Starlette(routes=[Route("/{name:path}", file)])
