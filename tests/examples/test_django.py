"""examples/django_shop: a real project on SQLite, through requests."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from conftest import EXAMPLES, Start
from serving import Serving

PICTURE = os.urandom(5_000_000)
WAIT = 30


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a migrated database, a superuser and the assets. SQLite keeps the first two in one file, which is
    copied for each server."""
    folder = tmp_path_factory.mktemp("migrated")
    env = {**os.environ, "SHOP_DATA": str(folder), "DJANGO_SUPERUSER_PASSWORD": "secret"}
    user = ("createsuperuser", "--noinput", "--username=anna", "--email=anna@example.org")
    assets = ("collectstatic", "--noinput", "--verbosity=0")
    for command in (("makemigrations", "--check", "--dry-run"), ("migrate", "--verbosity=0"), user, assets):
        made = subprocess.run(
            [sys.executable, "manage.py", *command], cwd=EXAMPLES / "django_shop", env=env, timeout=120,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, f"{command}: {made.stdout}{made.stderr}"
    return folder


@pytest.fixture(scope="module")
def shop(example: Start, migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Serving:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "db.sqlite3").write_bytes((migrated / "db.sqlite3").read_bytes())
    (folder / "collected").symlink_to(migrated / "collected")
    mount = f"/static={migrated}/collected"
    return example("django_shop", "shop.wsgi:application", "--static", mount, env={"SHOP_DATA": str(folder)})


def _token(page: requests.Response) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found, page.text
    return found[1]


@pytest.fixture
def anna(shop: Serving) -> Iterator[requests.Session]:
    """Somebody who has logged in to the admin."""
    with requests.Session() as session:
        token = _token(session.get(shop.url + "/admin/login/", timeout=WAIT))
        form = {"username": "anna", "password": "secret", "next": "/admin/", "csrfmiddlewaretoken": token}
        inside = session.post(shop.url + "/admin/login/", form, timeout=WAIT)
        assert inside.url == shop.url + "/admin/"
        assert "Site administration" in inside.text
        yield session


def _sell(shop: Serving, session: requests.Session, body: bytes = PICTURE) -> requests.Response:
    page = session.get(shop.url + "/sell/", timeout=WAIT)
    category = re.search(r'<option value="(\d+)">Balls', page.text)
    assert category, page.text
    form = {"name": "Ball", "category": category[1], "price": "1.50", "csrfmiddlewaretoken": _token(page)}
    return session.post(shop.url + "/sell/", form, files={"picture": ("b.bin", body)}, timeout=WAIT)


def test_the_admin_needs_its_token(shop: Serving) -> None:
    assert requests.post(shop.url + "/admin/login/", {"username": "x"}, timeout=WAIT).status_code == 403


def test_the_admin_has_its_styles_without_python_and_clients_keep_them(shop: Serving) -> None:
    # The shop has no view for them: what answers is not it.
    page = requests.get(shop.url + "/admin/login/", timeout=WAIT).text
    found = re.search(r'href="(/static/admin/css/base\.[0-9a-f]{12}\.css)"', page)
    assert found, page
    style = requests.get(shop.url + found[1], timeout=WAIT)
    assert style.headers["Content-Type"] == "text/css; charset=utf-8"
    assert style.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert "body" in style.text
    for known in ({"If-Modified-Since": style.headers["Last-Modified"]}, {"If-None-Match": style.headers["ETag"]}):
        again = requests.get(shop.url + found[1], headers=known, timeout=WAIT)
        assert (again.status_code, again.content) == (304, b"")
    plain = requests.get(shop.url + "/static/admin/css/base.css", timeout=WAIT)
    assert plain.headers["Cache-Control"] == "public, max-age=60", "its content may change under this name"
    missing = requests.get(shop.url + "/static/none.css", timeout=WAIT)
    assert (missing.status_code, "no page" in missing.text) == (404, False)


def test_the_admin_adds_changes_and_removes(shop: Serving, anna: requests.Session) -> None:
    there = shop.url + "/admin/catalogue/category/"
    for address, more in ((there + "add/", {"name": "Nets"}), (there + "3/change/", {"name": "Good nets"}),
                          (there + "3/delete/", {"post": "yes"})):  # fmt: skip
        token = _token(anna.get(address, timeout=WAIT))
        reply = anna.post(address, {**more, "csrfmiddlewaretoken": token}, timeout=WAIT)
        assert reply.url == there, f"{address}: {reply.status_code}"
        assert ("Good nets</a>" in reply.text) == ("change" in address)


def test_a_session_survives_from_request_to_request(shop: Serving, anna: requests.Session) -> None:
    for visit in (1, 2, 3):
        page = anna.get(shop.url, timeout=WAIT)
        assert f"Visit {visit} of this session" in page.text
        assert "Log out anna" in page.text
    left = anna.post(shop.url + "/logout/", {"csrfmiddlewaretoken": _token(page)}, timeout=WAIT)
    assert "Log out" not in left.text
    assert "/login/?next=/sell/" in anna.get(shop.url + "/sell/", timeout=WAIT).url


def test_an_upload_comes_back_as_it_was_sent(shop: Serving, anna: requests.Session) -> None:
    sold = _sell(shop, anna)
    assert re.fullmatch(re.escape(shop.url) + r"/article/\d+/", sold.url), sold.text
    for way in ("picture/", "stream/"):
        reply = anna.get(sold.url + way, timeout=WAIT, stream=True)
        chunked = reply.headers.get("Transfer-Encoding") == "chunked"
        assert chunked == (way == "stream/"), "a file has a length, a generator has none"
        assert hashlib.sha256(reply.content).digest() == hashlib.sha256(PICTURE).digest(), way


def test_a_chunked_upload_arrives(shop: Serving, anna: requests.Session) -> None:
    page = anna.get(shop.url + "/sell/", timeout=WAIT)
    form = {"name": "Chunked", "category": "1", "price": "2", "csrfmiddlewaretoken": _token(page)}
    whole = requests.Request("POST", shop.url, data=form, files={"picture": ("c", b"y" * 100_000)}).prepare()
    assert isinstance(whole.body, bytes)
    parts = (whole.body[at : at + 9999] for at in range(0, len(whole.body), 9999))
    kind = {"Content-Type": whole.headers["Content-Type"]}
    sold = anna.post(shop.url + "/sell/", data=parts, headers=kind, timeout=WAIT)
    assert anna.get(sold.url + "picture/", timeout=WAIT).content == b"y" * 100_000


def test_a_form_with_faults_is_shown_again(shop: Serving, anna: requests.Session) -> None:
    page = anna.get(shop.url + "/sell/", timeout=WAIT)
    wrong = {"name": "", "price": "much", "csrfmiddlewaretoken": _token(page)}
    reply = anna.post(shop.url + "/sell/", wrong, timeout=WAIT)
    assert reply.status_code == 422
    assert "Enter a number." in reply.text


def test_what_a_client_has_is_not_sent_again(shop: Serving, anna: requests.Session) -> None:
    article = _sell(shop, anna, b"small").url
    for address, header, tag in ((article, "If-None-Match", "ETag"),
                                 (article + "picture/", "If-Modified-Since", "Last-Modified")):  # fmt: skip
        first = requests.get(address, timeout=WAIT)
        assert (first.status_code, first.content != b"") == (200, True)
        again = requests.get(address, headers={header: first.headers[tag]}, timeout=WAIT)
        assert (again.status_code, again.content) == (304, b""), address
        assert "Transfer-Encoding" not in again.headers


def test_head_has_the_headers_of_get_and_no_content(shop: Serving, anna: requests.Session) -> None:
    article = _sell(shop, anna, b"z" * 70_000).url
    for address in (article, article + "picture/", article + "stream/"):
        got, head = anna.get(address, timeout=WAIT), anna.head(address, timeout=WAIT)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers.get("Content-Length") == got.headers.get("Content-Length"), address


def test_errors_have_the_shops_pages(shop: Serving) -> None:
    missing = requests.get(shop.url + "/article/999/", timeout=WAIT)
    assert (missing.status_code, "no page /article/999/" in missing.text) == (404, True)
    assert requests.get(shop.url + "/article/999/picture/", timeout=WAIT).status_code == 404
    fault = requests.get(shop.url + "/broken/", timeout=WAIT)
    assert (fault.status_code, "something is wrong" in fault.text.lower()) == (500, True)
    assert "broken on purpose" not in fault.text
    shop.says("RuntimeError: broken on purpose")
    assert requests.get(shop.url, timeout=WAIT).status_code == 200
