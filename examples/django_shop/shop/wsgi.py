"""`forehand shop.wsgi --static /static=collected`, after `manage.py collectstatic`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
application = get_wsgi_application()
