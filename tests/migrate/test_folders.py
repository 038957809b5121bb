"""Folders that other servers serve: what becomes `static`, and what is left out as it would open more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from forehand.migrate import page, recognised
from forehand.migrate.outcome import DIFFERENT, NOT_NEEDED, UNSUPPORTED, Outcome
from test_pages import loads
from test_uwsgi import made


def static(outcome: Outcome) -> list[str]:
    found = outcome.settings.get("static", [])
    assert isinstance(found, list)
    return found


def why(outcome: Outcome, option: str) -> str:
    """The reasons that are told of an option that has no counterpart."""
    return "; ".join(remark.reason for remark in outcome.about(option) if remark.kind == UNSUPPORTED)


@pytest.mark.parametrize(
    ("text", "mounts"),
    [
        ("static-map = /static=/srv/static\n", ["/static=/srv/static;try"]),
        ("static-map = /static/=/srv/static/\n", ["/static=/srv/static;try"]),
        ("static-map = /a=/srv/a\nstatic-map = /b=/srv/b\n", ["/a=/srv/a;try", "/b=/srv/b;try"]),
        ("static-map2 = /a/b=/srv\n", ["/a/b=/srv/a/b;try"]),
        ("check-static = /srv/www\n", ["/=/srv/www;try"]),
        ("static-check = /srv/www/\n", ["/=/srv/www;try"]),
        ("static-map = /s=/srv\nstatic-index = index.html\n", ["/s=/srv;try;index=index.html"]),
        ("static-expires = /* 3600\nstatic-map = /s=/srv\n", ["/s=/srv;try;max-age=3600"]),
        ("static-map = /s=/srv\nstatic-map = /t=/tmp/t\nstatic-expires-uri = ^/s/ 9\n",
         ["/s=/srv;try;max-age=9", "/t=/tmp/t;try"]),
        ("static-map = /s=/srv\nstatic-expires-uri = ^/s/img/ 9\n", ["/s=/srv;try"]),
        ("static-map = /favicon.ico=/srv/favicon.ico\nstatic-map = /s=/srv\nstatic-index = i.html\n",
         ["/favicon.ico=/srv/favicon.ico;try", "/s=/srv;try;index=i.html"]),
        ("static-map = /s=/srv\nstatic-expires-mtime = /* 9\n", ["/s=/srv;try"]),
    ],
)  # fmt: skip
def test_a_folder_of_uwsgi_is_a_mount_whose_missing_files_are_the_applications(
    text: str, mounts: list[str], tmp_path: Path
) -> None:
    outcome = made(tmp_path, f"module = a\nhttp = :1\nthreads = 2\n{text}")
    assert static(outcome) == mounts
    told = [remark for remark in outcome.remarks if remark.kind == DIFFERENT and "max-age=60" in remark.reason]
    assert len(told) == 1, "once, however many there are"


@pytest.mark.parametrize(
    ("text", "option", "reason"),
    [
        ("static-map = /s=/srv\nstatic-skip-ext = .py\n", "static-map", r"names in \.py .*static = \['/s=/srv;try'\]"),
        ("check-static-docroot = true\n", "check-static-docroot", "DOCUMENT_ROOT"),
        ("static-map = /s=/srv/a;b\n", "static-map", "has a semicolon"),
        ("static-map = s=/srv\n", "static-map", "does not begin with a slash"),
        ("static-map = /srv\n", "static-map", "it is not /PATH=FOLDER"),
    ],
)  # fmt: skip
def test_what_uwsgi_kept_back_is_not_served(text: str, option: str, reason: str, tmp_path: Path) -> None:
    outcome = made(tmp_path, f"module = a\nhttp = :1\n{text}")
    assert static(outcome) == []
    assert re.search(reason, why(outcome, option)), outcome.remarks


def test_of_two_folders_for_one_path_the_first_is_taken(tmp_path: Path) -> None:
    outcome = made(tmp_path, "module = a\nhttp = :1\nstatic-map = /s=/one\nstatic-map = /s=/two\n")
    assert static(outcome) == ["/s=/one;try"]
    assert "/s has one folder or file" in why(outcome, "static-map")


def test_what_files_have_anyway_needs_nothing(tmp_path: Path) -> None:
    text = "static-gzip-all = true\nhonour-range = true\nstatic-cache-paths = 9\noffload-threads = 4\n"
    outcome = made(tmp_path, f"module = a\nhttp = :1\nstatic-map = /s=/srv\n{text}static-safe = /other\n")
    for option in ("static-gzip-all", "honour-range", "static-cache-paths", "offload-threads"):
        assert [remark.kind for remark in outcome.about(option)] == [NOT_NEEDED], option
    assert "a mount of its own" in why(outcome, "static-safe")


def test_a_folder_from_a_variable_stands_on_the_command_line(tmp_path: Path) -> None:
    outcome = made(tmp_path, "module = a\nhttp = :1\nstatic-map = /s=$(ASSETS)/s\nstatic-map = /t=/srv/t\n")
    assert set(outcome.flags) == {'--static "/s=${ASSETS}/s;try"', "--static '/t=/srv/t;try'"}


@pytest.mark.parametrize(
    ("line", "mounts"),
    [
        ("granian --interface wsgi a:b --static-path-mount assets", ["/static=assets;max-age=86400"]),
        ("granian --interface wsgi a:b --static-path-route /s --static-path-mount /srv/s --static-path-expires 60 "
         "--static-path-dir-to-file index.html", ["/s=/srv/s;index=index.html;max-age=60"]),
        ("granian --interface wsgi a:b --static-path-route /s --static-path-mount a --static-path-route /t "
         "--static-path-mount b", ["/s=a;max-age=86400", "/t=b;max-age=86400"]),
        ("GRANIAN_STATIC_PATH_MOUNT=assets granian --interface wsgi a:b", ["/static=assets;max-age=86400"]),
        ("mod_wsgi-express start-server a.wsgi --url-alias /s /srv/s --url-alias /t /srv/t",
         ["/s=/srv/s", "/t=/srv/t"]),
        ("mod_wsgi-express start-server a.wsgi --url-alias /robots.txt /srv/robots.txt --directory-index index.html",
         ["/robots.txt=/srv/robots.txt"]),
        ("mod_wsgi-express start-server a.wsgi --document-root www --directory-index 'index.html index.htm'",
         ["/=www;try;index=index.html"]),
    ],
)  # fmt: skip
def test_folders_on_command_lines_become_mounts(line: str, mounts: list[str], tmp_path: Path) -> None:
    outcome = recognised(line, str(tmp_path), {})
    assert static(outcome) == mounts
    loads(page(line, str(tmp_path), {}), tmp_path)


@pytest.mark.parametrize("closed", ["--auth-user-script auth.py", "--host-access-script who.py", "--include-file more"])
def test_what_apache_may_have_kept_from_somebody_is_not_served(closed: str, tmp_path: Path) -> None:
    outcome = recognised(f"mod_wsgi-express start-server a.wsgi --url-alias /s /srv/s {closed}", str(tmp_path), {})
    assert static(outcome) == []
    assert "static = ['/s=/srv/s']" in why(outcome, "--url-alias")


def of_unit(folder: Path, steps: list[Any], **listeners: str) -> Outcome:
    """What comes of a route, to which one listener leads if nothing else is said."""
    document = {
        "listeners": {f"*:{port}": {"pass": lead} for port, lead in (listeners or {"8000": "routes"}).items()},
        "routes": [*steps, {"action": {"pass": "applications/shop"}}],
        "applications": {"shop": {"type": "python", "module": "shop.wsgi"}},
    }
    (folder / "unit.json").write_text(json.dumps(document))
    loads(page("unit.json", str(folder), {}), folder)
    return recognised("unit.json", str(folder), {})


def share(uri: Any, target: Any = "/srv$uri", **more: Any) -> dict[str, Any]:
    return {"match": {"uri": uri}, "action": {"share": target, **more}}


APPLICATION = {"pass": "applications/shop"}


@pytest.mark.parametrize(
    ("steps", "mounts"),
    [
        ([share("/static/*")], ["/static=/srv/static;index=index.html"]),
        ([share(["/a/*", "/b/*"], ["/srv$uri"])], ["/a=/srv/a;index=index.html", "/b=/srv/b;index=index.html"]),
        ([{"action": {"share": "/www$uri", "fallback": APPLICATION}}], ["/=/www;try;index=index.html"]),
        ([share("/a/*", index="i.html", chroot="/srv")], ["/a=/srv/a;index=i.html"]),
        ([share("/a/*"), share("/b/*")], ["/a=/srv/a;index=index.html", "/b=/srv/b;index=index.html"]),
    ],
)
def test_what_unit_shares_is_a_mount(steps: list[Any], mounts: list[str], tmp_path: Path) -> None:
    assert static(of_unit(tmp_path, steps)) == mounts


@pytest.mark.parametrize(
    ("steps", "where", "reason"),
    [
        ([share("/a/*", types=["image/*"])], "routes[0]", "types cannot be said here"),
        ([{"match": {"uri": "/a/*", "host": "x"}, "action": {"share": "/srv$uri"}}], "routes[0]", "match.host"),
        ([{"match": {"uri": "/a/private/*"}, "action": {"return": 403}}, share("/a/*")], "routes[1]",
         "routes[0] comes first"),
        ([{"match": {"uri": "/a/x/*"}, "action": APPLICATION}, share("/a/*")], "routes[1]", "routes[0] comes first"),
        ([share("/a.css")], "routes[0]", "a path and all below it"),
        ([share("/*.css")], "routes[0]", "a path and all below it"),
        ([share("!/a/*")], "routes[0]", "a path and all below it"),
        ([share("/a/*", "/srv/$host$uri")], "routes[0]", "it is not FOLDER$uri"),
        ([share("/a/*", "/srv/one.html")], "routes[0]", "it is not FOLDER$uri"),
        ([share("/a/*", fallback={"return": 404})], "routes[0]", "its fallback is not the application"),
        ([{"action": APPLICATION}, share("/a/*")], "routes[1]", "routes[0] comes first"),
    ],
)  # fmt: skip
def test_what_unit_shares_under_a_condition_is_not_served(
    steps: list[Any], where: str, reason: str, tmp_path: Path
) -> None:
    outcome = of_unit(tmp_path, steps)
    assert static(outcome) == []
    assert reason in why(outcome, where), outcome.remarks


def test_a_path_below_one_that_comes_first_is_not_a_mount_of_its_own(tmp_path: Path) -> None:
    outcome = of_unit(tmp_path, [share("/a/*"), share("/a/b/*", "/other$uri")])
    assert static(outcome) == ["/a=/srv/a;index=index.html"]
    assert "comes first" in why(outcome, "routes[1]")


def test_what_one_address_of_unit_serves_is_not_for_the_others(tmp_path: Path) -> None:
    outcome = of_unit(tmp_path, [share("/a/*")], **{"8000": "routes", "8001": "applications/shop"})
    assert outcome.settings["bind"] == [":8000", ":8001"]
    assert static(outcome) == []
    assert "the listeners lead elsewhere, too; to serve them" in why(outcome, "routes[0]")
