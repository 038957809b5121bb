"""`forehand shop.wsgi`; with SHOP_VALIDATE set, through `wsgiref.validate`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
application = get_wsgi_application()
if os.environ.get("SHOP_VALIDATE"):
    from wsgiref.validate import validator

    application = validator(application)
