"""The example's addresses."""

from catalogue import views
from django.contrib import admin
from django.urls import path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", views.index),
    path("upload/", views.upload),
    path("file/<int:number>/", views.file),
    path("stream/<int:kib>/", views.stream),
    path("broken/", views.broken),
]
