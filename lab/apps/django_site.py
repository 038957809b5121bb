"""A Django site in one file, as article D measured it: `/plain` does almost nothing,
`/session` writes to the database.
"""

import os
import tempfile

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

FOLDER = os.environ.get("LAB_SCRATCH") or tempfile.gettempdir()

settings.configure(
    DEBUG=False,
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="measured and thrown away",
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["django.contrib.sessions"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"] if os.environ.get("LAB_SESSIONS") else [],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.path.join(FOLDER, "lab-django.sqlite3"),
            "OPTIONS": {"timeout": 30},
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    LOGGING_CONFIG=None,
)


def plain(request):
    """Almost nothing."""
    return HttpResponse(b"Hello from Django\n", content_type="text/plain")


def session(request):
    """Writes a session to the database."""
    request.session["seen"] = 1
    return HttpResponse(b"Your session was kept\n", content_type="text/plain")


urlpatterns = [path("plain", plain), path("session", session)]
django.setup()


def migrate():
    """Makes the table of sessions, once: called before the server starts, and not by each worker."""
    from django.core.management import call_command

    call_command("migrate", verbosity=0, interactive=False)


application = get_wsgi_application()
