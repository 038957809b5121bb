"""The example's addresses."""

from catalogue import views
from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("login/", LoginView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("", views.index, name="index"),
    path("sell/", views.sell, name="sell"),
    path("article/<int:number>/", views.article, name="article"),
    path("article/<int:number>/picture/", views.picture, name="picture"),
    path("article/<int:number>/stream/", views.stream, name="stream"),
    path("broken/", views.broken, name="broken"),
]
