"""Settings of the example: the usual ones, on SQLite. SHOP_DATA says where database, uploads and assets go."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("SHOP_DATA", BASE_DIR))
# A fixed key and any host: right for an example on loopback, and nowhere else.
SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "only for this example")
DEBUG = False
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "catalogue",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.http.ConditionalGetMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "shop.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
WSGI_APPLICATION = "shop.wsgi.application"
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATA / "db.sqlite3", "OPTIONS": {"timeout": 20}}
}
MEDIA_ROOT = DATA / "media"
STATIC_URL = "static/"
# Where `manage.py collectstatic` puts everything, under names with a hash that clients may keep.
STATIC_ROOT = DATA / "collected"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"},
}
LOGIN_REDIRECT_URL = "index"
LOGOUT_REDIRECT_URL = "index"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
# Django mails faults to ADMINS and prints none; an example shows its tracebacks where it runs.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"django.request": {"handlers": ["console"], "level": "ERROR"}},
}
