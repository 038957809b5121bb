"""The shop in Django's admin."""

from django.contrib import admin
from django.forms import ModelForm
from django.http import HttpRequest

from .models import Article, Category


@admin.register(Category)
class CategoryAdmin(admin.ModelAdmin):
    """Categories by name."""

    search_fields = ["name"]


@admin.register(Article)
class ArticleAdmin(admin.ModelAdmin):
    """Articles, with the columns that one looks for."""

    list_display = ["name", "category", "price", "seller"]
    list_filter = ["category"]

    def save_model(self, request: HttpRequest, obj: Article, form: ModelForm, change: bool) -> None:
        """Whoever adds an article sells it."""
        if not change:
            obj.seller = request.user
        super().save_model(request, obj, form, change)
