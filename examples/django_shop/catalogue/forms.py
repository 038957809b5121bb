"""The form that puts an article on sale."""

from django.forms import ModelForm

from .models import Article


class ArticleForm(ModelForm):
    """Name, category, price and a picture of any size."""

    class Meta:
        model = Article
        fields = ["name", "category", "price", "picture"]
