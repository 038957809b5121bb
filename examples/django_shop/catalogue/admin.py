"""The shop in Django's admin."""

from django.contrib import admin

from .models import Article

admin.site.register(Article)
