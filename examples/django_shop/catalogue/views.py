"""A page, an upload, a file, a stream."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt

from .models import Article


def index(request: HttpRequest) -> HttpResponse:
    """The articles, and how often this session has seen them."""
    visits = request.session["visits"] = request.session.get("visits", 0) + 1
    names = ", ".join(article.name for article in Article.objects.all())
    return HttpResponse(f"visit {visits}: {names}", content_type="text/plain")


@csrf_exempt
def upload(request: HttpRequest) -> JsonResponse:
    """Save a picture with a new article."""
    article = Article.objects.create(name=request.POST["name"], price="1.50", picture=request.FILES["picture"])
    return JsonResponse({"number": article.pk, "size": article.picture.size})


def file(request: HttpRequest, number: int) -> FileResponse:
    """An article's picture, by `wsgi.file_wrapper`."""
    article = get_object_or_404(Article, pk=number)
    return FileResponse(article.picture.open("rb"))


def stream(request: HttpRequest, kib: int) -> HttpResponseBase:
    """So many kibibytes, one after the other."""

    def parts() -> Iterator[bytes]:
        for number in range(kib):
            yield bytes([number % 251]) * 1024

    return StreamingHttpResponse(parts(), content_type="application/octet-stream")


def broken(request: HttpRequest) -> HttpResponse:
    """Django's own error page: 500."""
    raise RuntimeError("broken on purpose")
