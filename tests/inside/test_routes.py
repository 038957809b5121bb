"""`http_route` is what a framework has matched, and never a path."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from serving import Serving, read_reply
from shared import Watched, settled, statistics

Serve = Callable[..., Serving]
#: Application → what stands for `/users/NAME/`.
FRAMEWORKS = {
    "django_wsgi": "/users/<str:name>/",
    "django_asgi": "/users/<str:name>/",
    "flask": "/users/<name>/",
    "starlette": "/users/{name}/",
    "fastapi": "/users/{name}/",
}


def routes(watched: Watched) -> dict[str, float]:
    """How many requests each route has had, as the durations' label has it."""
    found: dict[str, float] = {}
    for (name, labels), value in watched.samples().items():
        if name == "http_server_request_duration_seconds_count":
            route = dict(labels).get("http_route", "")
            found[route] = found.get(route, 0) + value
    return found


def by_name(watched: Watched) -> dict[str, float]:
    """How many requests each route has had, those made of paths included."""
    return {
        dict(labels)["route"]: value
        for (name, labels), value in watched.samples().items()
        if name == "forehand_route_requests_total"
    }


def unplaced(watched: Watched) -> float:
    """Requests that had no place for their route."""
    return watched.samples()["forehand_routes_overflow_total", frozenset()]


def ask(watched: Watched, paths: Iterable[str], fields: str = "") -> list[int]:
    """Ask for one after another on one connection: what each was answered."""
    buffer = bytearray()
    statuses = []
    with watched.server.connect() as sock:
        for path in paths:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n".encode())
            statuses.append(read_reply(sock, buffer)[0])
    return statuses


def words(count: int) -> list[str]:
    """So many words without digits, each twice in a row: a path is a route when it comes again."""
    return [chr(97 + number // 26) + chr(97 + number % 26) for number in range(count) for _ in "12"]


@pytest.mark.parametrize("application", FRAMEWORKS)
def test_a_framework_tells_what_it_has_matched(serve: Serve, tmp_path: Path, application: str) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target=f"routed:{application}")
    for name in ("ann", "bob", "cid"):
        assert watched.view(f"/users/{name}/") == 200
    assert watched.view("/nothing/here") == 404
    settled(watched.server, statistics(watched.server), 4)
    assert routes(watched) == {FRAMEWORKS[application]: 3, "": 1}


@pytest.mark.skipif(importlib.util.find_spec("gevent") is None, reason="gevent is not installed")
def test_under_gevent_as_well(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", "--worker-class", "gevent", target="routed:flask")
    assert watched.view("/users/ann/") == 200
    settled(watched.server, statistics(watched.server), 1)
    assert routes(watched) == {"/users/<name>/": 1}


#: Application → a path below its mount, and what stands for it.
MOUNTED = {
    "starlette": ("/of/{}/users/ann", "/of/{shop}/users/{name}"),
    "starlette_deep": ("/in-{0}/of/{0}/b/of/users/ann", "/*/users/{name}"),
    "fast_mounted": ("/shop/of/{}/users/ann/", "/shop/of/{owner}/users/{name}/"),
    "fast_included": ("/shop/of/{}/v1/orders/1/lines/x", "/shop/of/{owner}/v1/orders/{order}/lines/{name}"),
    "flask_mounted": ("/shop/users/{}/", "/shop/users/<name>/"),
    "django_mounted": ("/shop/users/{}/", "/shop/users/<str:name>/"),
}
APPLICATIONS = {"starlette_deep": "starlette", "fast_included": "fast_mounted"}


@pytest.mark.parametrize("case", MOUNTED)
def test_a_route_below_a_mount_has_the_mount_before_it_and_no_part_of_the_path(
    serve: Serve, tmp_path: Path, case: str
) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target=f"routed:{APPLICATIONS.get(case, case)}")
    path, route = MOUNTED[case]
    for shop in ("north", "south", "7", "users"):
        assert watched.view(path.format(shop)) == 200
    settled(watched.server, statistics(watched.server), 4)
    assert routes(watched) == {route: 4}


@pytest.mark.parametrize(("framework", "mount"), [("starlette", "/of"), ("fast_mounted", "/shop/of")])
def test_what_is_mounted_without_routes_is_known_by_its_mount(
    serve: Serve, tmp_path: Path, framework: str, mount: str
) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target=f"routed:{framework}")
    for shop in ("north", "south", "west"):
        assert watched.view(f"/raw/{shop}/any/thing") == 200
        assert watched.view(f"{mount}/{shop}/nothing/there") == 404
        assert watched.view(f"/nowhere/{shop}") == 404
    settled(watched.server, statistics(watched.server), 9)
    found = routes(watched)
    found.pop("")
    assert {route.partition("{")[0]: count for route, count in found.items()} == {"/raw/": 3, f"{mount}/": 3}
    assert len(found) == 2, "who asks for much makes no routes"


def test_what_a_host_has_in_its_name_is_in_no_route(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target="routed:starlette")
    for shop in ("north", "south"):
        for path in ("/nothing", "/in/users/ann"):
            with watched.server.connect() as sock:
                sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {shop}.example.com\r\n\r\n".encode())
                assert read_reply(sock, bytearray())[0] == (404 if path == "/nothing" else 200)
    settled(watched.server, statistics(watched.server), 4)
    assert routes(watched) == {"": 2, "/in/users/{name}": 2}


def test_flask_says_what_it_has_matched_also_where_no_view_is_asked(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target="routed:flask")
    assert watched.view("/users/ann/?early=1") == 200
    settled(watched.server, statistics(watched.server), 1)
    assert routes(watched) == {"/users/<name>/": 1}


def test_routers_that_are_included_have_their_prefixes(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target="routed:fastapi")
    for path in ("/v1/orders/1/lines/a", "/v2/orders/2/lines/b", "/v2/orders/3/lines/c"):
        assert watched.view(path) == 200
    settled(watched.server, statistics(watched.server), 3)
    assert routes(watched) == {"/v1/orders/{order}/lines/{name}": 1, "/v2/orders/{order}/lines/{name}": 2}


def test_an_application_can_say_it_itself(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target="routed:plain")
    for name in ("a", "b"):
        assert watched.view(f"/{name}") == 200
    settled(watched.server, statistics(watched.server), 2)
    assert routes(watched) == {"/by/hand": 2}


def test_without_a_framework_there_is_none(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1")
    for _ in range(3):
        assert watched.view("/quick/17") == 200
    settled(watched.server, statistics(watched.server), 3)
    assert routes(watched) == {"": 3}


COOKIE = "Cookie: session=1\r\n"
#: Half of a worker's places: what paths may take, and what is kept for what is told.
HALF = 63


def test_what_an_application_refuses_makes_no_route(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target="routed:guarded")
    assert set(ask(watched, (f"/blog/post-{word}" for word in words(200)))) == {403}
    assert ask(watched, (f"/orders/{n}" for n in range(1, 5)), COOKIE) == [200] * 4
    settled(watched.server, statistics(watched.server), 404)
    assert routes(watched) == {"": 400, "/orders/<int:n>": 4}
    assert by_name(watched) == {"GET /orders/<int:n>": 4}
    assert unplaced(watched) == 0


def test_what_is_told_has_a_place_whatever_was_asked_for(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target="routed:guarded")
    # Paths of which none is like another: nothing in them can be found to be a key.
    assert set(ask(watched, (f"/{word}/login/{word}" for word in words(HALF + 37)))) == {302}
    assert ask(watched, (f"/orders/{n}" for n in range(1, 5)), COOKIE) == [200] * 4
    shared = statistics(watched.server)
    settled(watched.server, shared, 2 * (HALF + 37) + 4)
    assert routes(watched)["/orders/<int:n>"] == 4
    assert len(by_name(watched)) == HALF + 1
    assert unplaced(watched) == 2 * 37
    assert "no route     74 requests: the places for routes are taken" in watched.server.order("status")[1]
    # And what a worker has counted outlives it.
    before = watched.server.status()["workers"][0]["pid"]
    os.kill(before, signal.SIGKILL)
    watched.server.until(lambda: before not in [one["pid"] for one in watched.server.status()["workers"]])
    settled(watched.server, shared, 2 * (HALF + 37) + 4)
    assert routes(watched)["/orders/<int:n>"] == 4
    assert len(by_name(watched)) == HALF + 1
    assert unplaced(watched) == 2 * 37


def test_words_of_which_there_are_many_are_one_route(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target="routed:anything")
    ask(watched, (f"/blog/some-{word}" for word in words(200)))
    ask(watched, ["/checkout"] * 3)
    settled(watched.server, statistics(watched.server), 403)
    found = by_name(watched)
    assert (found.pop("GET /checkout"), found.pop("GET /blog/*")) == (2, 2 * 179 + 1)
    assert sorted(found) == sorted({f"GET /blog/some-{word}" for word in words(20)})
    assert unplaced(watched) == 0


def test_routes_with_long_names_are_told_apart(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target="routed:long_route")
    ask(watched, ["/a", "/b", "/a"])
    settled(watched.server, statistics(watched.server), 3)
    found = routes(watched)
    assert sorted(found.values()) == [1, 2]
    assert all(route.startswith("/long/long/") and route[-9] == "\N{HORIZONTAL ELLIPSIS}" for route in found)
