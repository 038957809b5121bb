"""`forehand shop.wsgi`."""

import os

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
# Style sheets of the admin from Django itself, so that the example needs nothing in front of it.
# A site in production lets its proxy serve them: docs/behind-nginx.md.
application = StaticFilesHandler(get_wsgi_application())
