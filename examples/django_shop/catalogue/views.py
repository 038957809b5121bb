"""The shop's pages: a list, a form with an upload, an article, and its file in two ways."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.contrib.auth.decorators import login_required
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import last_modified, require_safe

from .forms import ArticleForm
from .models import Article

PART = 64 * 1024


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """The articles, and how often this session has seen them."""
    visits = request.session["visits"] = request.session.get("visits", 0) + 1
    articles = Article.objects.select_related("category")
    return render(request, "catalogue/index.html", {"articles": articles, "visits": visits})


@login_required
def sell(request: HttpRequest) -> HttpResponse:
    """The form: its picture is saved in MEDIA_ROOT."""
    form = ArticleForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        article = form.save(commit=False)
        article.seller = request.user
        article.save()
        return redirect("article", article.pk)
    status = 422 if request.method == "POST" else 200
    return render(request, "catalogue/sell.html", {"form": form}, status=status)


@require_safe
def article(request: HttpRequest, number: int) -> HttpResponse:
    """One article. It has no session and no form, so that the middleware's ETag makes it conditional."""
    found = get_object_or_404(Article.objects.select_related("category", "seller"), pk=number)
    return render(request, "catalogue/article.html", {"article": found})


def _changed(request: HttpRequest, number: int) -> datetime | None:
    return Article.objects.filter(pk=number).values_list("changed", flat=True).first()


@require_safe
@last_modified(_changed)
def picture(request: HttpRequest, number: int) -> FileResponse:
    """An article's file by `wsgi.file_wrapper`: the server sends it without Python."""
    return FileResponse(get_object_or_404(Article, pk=number).picture.open("rb"))


@require_safe
def stream(request: HttpRequest, number: int) -> StreamingHttpResponse:
    """The same file from a generator, with no length: chunked."""
    opened = get_object_or_404(Article, pk=number).picture.open("rb")

    def parts() -> Iterator[bytes]:
        with opened:
            while part := opened.read(PART):
                yield part

    return StreamingHttpResponse(parts(), content_type="application/octet-stream")


def broken(request: HttpRequest) -> HttpResponse:
    """What a fault looks like: templates/500.html for the client, a traceback in the log."""
    raise RuntimeError("broken on purpose")
