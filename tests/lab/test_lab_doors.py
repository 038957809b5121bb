"""Contestants that stand behind nginx: what it speaks to them, and that they answer as without it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import laboratory
import pytest
from forehand_lab import contestant, scenario
from forehand_lab.environments import program
from laboratory import lab

FRONTS = contestant.HERE / "fronts"
#: Forehand behind nginx, by each of the protocols that it takes from a web server.
DOORS = (
    "forehand-nginx", "forehand-nginx-kept", "forehand-uwsgi-nginx", "forehand-scgi-nginx", "forehand-fcgi-nginx",
    "forehand-fcgi-nginx-kept",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name, each in contestant.everybody().items() if each.start.front])
def test_what_nginx_speaks_to_a_contestant_is_in_its_configuration(name: str) -> None:
    upstream = contestant.asked_for(name).start.upstream
    text = (FRONTS / f"nginx-{upstream}.conf").read_text()
    protocol = upstream.removesuffix("-kept")
    assert f" {'proxy' if protocol == 'http' else protocol}_pass " in text
    assert ("keepalive " in text) == upstream.endswith("-kept"), "kept connections stand in the name"


@pytest.mark.parametrize("upstream, speaks", [("http-kept", "proxy_pass"), ("fastcgi-kept", "fastcgi_pass")])
def test_kept_connections_are_set_up_as_the_page_about_nginx_says(upstream: str, speaks: str) -> None:
    """So that what is measured is what users are advised to have, with the same word about the client by each door."""
    page = (contestant.HERE.parent / "docs" / "behind-nginx.md").read_text()
    advised, ours = (
        {" ".join(line.partition("#")[0].split()) for line in text.splitlines() if speaks not in line}
        for text in (located(page, speaks), located((FRONTS / f"nginx-{upstream}.conf").read_text(), speaks))
    )
    assert ours == advised


def located(text: str, speaks: str) -> str:
    """What a configuration has for all paths, where it speaks that."""
    found = re.findall(r"^ +location / \{(.*?)^ +\}", text, re.S | re.M)
    return next(each for each in found if speaks in each)


@pytest.mark.parametrize(
    "other, ours",
    [("uwsgi-nginx", "forehand-uwsgi-nginx"), ("flup", "forehand-fcgi-nginx"), ("nginx", "forehand-static")],
)
def test_where_another_server_is_measured_so_is_forehand_by_the_same_means(other: str, ours: str) -> None:
    for found in scenario.everything().values():
        plain = {name.partition(":")[0] for name in found.servers}
        assert other not in plain or ours in plain, found.name


@pytest.mark.apart
def test_forehand_gives_the_same_answers_by_each_protocol_of_a_web_server(tmp_path: Path) -> None:
    assert program("nginx"), "nginx is missing: install it (Debian: nginx-light)"
    told = lab(laboratory.surroundings(tmp_path), "verify", "post", "--servers", ",".join(DOORS), "--json")
    assert told.returncode == 0, told.stdout + told.stderr
    found = json.loads(told.stdout)
    assert [(each["server"], each["differences"], each["why"]) for each in found["servers"]] == [
        (name, [], "") for name in DOORS
    ]


@pytest.mark.apart
@pytest.mark.parametrize("name", ["static-file", "head", "big-page", "closed-loop"])
def test_forehand_sends_files_as_nginx_does(tmp_path: Path, name: str) -> None:
    assert program("nginx"), "nginx is missing: install it (Debian: nginx-light)"
    told = lab(laboratory.surroundings(tmp_path), "verify", name, "--servers", "nginx,forehand-static", "--json")
    assert told.returncode == 0, told.stdout + told.stderr
