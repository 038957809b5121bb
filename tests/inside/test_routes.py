"""`http_route` is what a framework has matched, and never a path."""

from __future__ import annotations

import importlib.util
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


def ask(watched: Watched, paths: Iterable[str], fields: str = "") -> list[int]:
    """Ask for one after another on one connection: what each was answered."""
    buffer = bytearray()
    statuses = []
    with watched.server.connect() as sock:
        for path in paths:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n".encode())
            statuses.append(read_reply(sock, buffer)[0])
    return statuses


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


def test_routes_with_long_names_are_told_apart(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target="routed:long_route")
    ask(watched, ["/a", "/b", "/a"])
    settled(watched.server, statistics(watched.server), 3)
    found = routes(watched)
    assert sorted(found.values()) == [1, 2]
    assert all(route.startswith("/long/long/") and route[-9] == "\N{HORIZONTAL ELLIPSIS}" for route in found)
