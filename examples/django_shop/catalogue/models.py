"""What the shop sells, and the files that belong to it."""

from django.db import models


class Article(models.Model):
    """Something on sale."""

    name = models.CharField(max_length=200)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    picture = models.FileField(blank=True)

    def __str__(self) -> str:
        return self.name
