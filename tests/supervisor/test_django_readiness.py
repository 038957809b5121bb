"""Django with views that are broken: found before the workers that serve leave."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import PYTHON, Serving

pytest.importorskip("django")

FILES = {
    "shop/__init__.py": "",
    "shop/settings.py": "SECRET_KEY = 'x'\nDEBUG = False\nALLOWED_HOSTS = ['*']\nROOT_URLCONF = 'shop.urls'\n"
    "INSTALLED_APPS = []\nMIDDLEWARE = []\n",
    "shop/wsgi.py": "import os\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\n"
    "from django.core.wsgi import get_wsgi_application\napplication = get_wsgi_application()\n",
    "shop/asgi.py": "import os\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\n"
    "from django.core.asgi import get_asgi_application\napplication = get_asgi_application()\n",
    "shop/urls.py": "from django.urls import include, path\nurlpatterns = [path('', include('shop.pages'))]\n",
    "shop/pages.py": "from django.urls import path\nfrom shop import views\nurlpatterns = [path('', views.front)]\n",
    "shop/views.py": "from django.http import HttpResponse\ndef front(request):\n    return HttpResponse(b'front')\n",
}
ASK = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def rewrite(path: Path, text: str) -> None:
    path.write_text(text)
    # Python compares whole seconds.
    os.utime(path, (time.time() + 10, time.time() + 10))


def check(shop: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PYTHON, "-m", "forehand", *words, "--check"], cwd=shop, capture_output=True, text=True)


@pytest.mark.parametrize("target", ["shop.wsgi", "shop.asgi"])
def test_a_reload_of_broken_views_is_refused_and_the_old_ones_serve(
    serve: Callable[..., Serving], shop: Path, target: str
) -> None:
    server = serve(target, cwd=shop)
    assert b"front" in server.raw(ASK)
    rewrite(shop / "shop/views.py", "def x(:\n")
    status, text = server.order("reload")
    assert status == 4, text
    assert "Django's URLs cannot be resolved: SyntaxError in what shop.urls imports" in text
    assert "views.py" in text and "--readiness none" in text
    assert b"front" in server.raw(ASK)
    rewrite(shop / "shop/views.py", FILES["shop/views.py"].replace("b'front'", "b'mended'"))
    assert server.order("reload")[0] == 0
    assert b"mended" in server.raw(ASK)


@pytest.mark.parametrize("target", ["shop.wsgi", "shop.asgi"])
def test_the_check_finds_them_unless_told_not_to_look(shop: Path, target: str) -> None:
    assert check(shop, target).returncode == 0
    rewrite(shop / "shop/views.py", "import no_such_module\n")
    done = check(shop, target)
    assert done.returncode == 4
    assert "ModuleNotFoundError" in done.stderr and "views.py" in done.stderr
    assert "forehand/" not in done.stderr.split("forehand: ")[0], "the traceback is the application's own"
    assert check(shop, target, "--readiness", "none").returncode == 0


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("target", ["shop.wsgi", "shop.asgi"])
def test_views_that_exit_are_broken_too(serve: Callable[..., Serving], shop: Path, target: str, workers: str) -> None:
    server = serve(target, cwd=shop) if workers == "1" else None
    rewrite(shop / "shop/views.py", "import sys\nsys.exit()\n")
    done = check(shop, target)
    assert (done.returncode, "SystemExit in what shop.urls imports" in done.stderr) == (4, True), done.stderr
    command = [PYTHON, "-m", "forehand", target, "--bind=127.0.0.1:0", "--workers", workers]
    begun = subprocess.run(command, cwd=shop, capture_output=True, text=True, timeout=60)
    assert (begun.returncode, "SystemExit in what shop.urls imports" in begun.stderr) == (4, True), begun.stderr
    if server is not None:
        status, text = server.order("reload")
        assert (status, "SystemExit in what shop.urls imports" in text) == (4, True), text
        assert b"front" in server.raw(ASK)


@pytest.mark.parametrize("target", ["shop.wsgi", "shop.asgi"])
def test_a_readiness_call_that_exits_has_failed(shop: Path, target: str) -> None:
    (shop / "ready.py").write_text("import sys\ndef ready():\n    sys.exit(0)\n")
    done = check(shop, target, "--readiness", "ready:ready")
    assert (done.returncode, "'ready:ready' raised SystemExit" in done.stderr) == (4, True), done.stderr


def test_the_check_runs_a_readiness_call_that_is_named(shop: Path) -> None:
    for target in ("shop.wsgi", "shop.asgi"):
        assert check(shop, target, "--readiness", "/").returncode == 0
        done = check(shop, target, "--readiness", "/gone")
        assert (done.returncode, "answered 404" in done.stderr) == (4, True), done.stderr


def test_other_applications_are_not_asked(shop: Path) -> None:
    (shop / "plain.py").write_text("import django.conf\napp = lambda environ, start_response: []\n")
    assert check(shop, "plain").returncode == 0
