"""Contestants and scenarios, as they stand in their files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from forehand_lab import contestant, scenario
from forehand_lab.estimates import LEAST_PAIRS
from forehand_lab.plan import STARTUP_SECONDS, Aim, asked, plan
from forehand_lab.problem import Problem

# Every system of the classic articles, and today's: none may be missing without a word.
SYSTEMS = (
    "gunicorn", "gunicorn-threads", "gunicorn-gevent", "gunicorn-nginx", "gunicorn@2010", "uwsgi",
    "uwsgi-http", "uwsgi-http-threads", "uwsgi-nginx", "uwsgi-nginx-threads", "tornado-inline", "gunicorn-threads-fast",
    "fapws3", "aspen", "mod_wsgi", "mod_wsgi-daemon", "mod_python", "mod_python-wsgi", "wsgiref", "cherrypy", "cheroot",
    "magnumpy", "twisted", "cogen", "gevent", "gevent-nospawn", "tornado", "eventlet", "concurrence", "paste",
    "spawning", "flup", "flup-prefork", "snakelets", "nxweb", "nginx", "apache", "bjoern", "meinheld", "rocket",
    "granian", "uvicorn", "daphne",
    "hypercorn", "hypercorn-asgi", "granian-asgi", "waitress", "fastpysgi", "forehand", "forehand-asgi",
    "forehand-nginx", "forehand-nginx-kept", "forehand-uwsgi-nginx", "forehand-scgi-nginx",
    "forehand-fcgi-nginx", "forehand-fcgi-nginx-kept", "forehand-static", "nxweb-static",
    "forehand-tls", "forehand-h2c", "forehand-static-tls", "granian-tls", "granian-h2c", "hypercorn-tls",
    "hypercorn-h2c", "nginx-tls", "nginx-h2c", "caddysnake", "caddysnake-h2c",
    "forehand-asgi-asyncio", "cherrypy@2010", "twisted@2010", "gevent@2010", "tornado@2010",
)  # fmt: skip
INSTALL_AND_VERIFY_S = 10.0
ARTICLES = ("A1", "A2", "A3", "B", "C1", "C2", "C3", "C4", "C5", "D1", "D2", "E")


def test_every_system_of_the_articles_has_its_row() -> None:
    assert set(SYSTEMS) - set(contestant.everybody()) == set()


def test_asgi_servers_meet_in_a_scenario_of_their_own() -> None:
    servers = [contestant.asked_for(name) for name in scenario.asked_for("asgi").servers]
    by_interface = [server.name for server in servers if server.serves.interfaces == ("asgi",)]
    assert (
        {"uvicorn", "hypercorn-asgi", "granian-asgi", "forehand-asgi"}
        <= set(by_interface)
        < {server.name for server in servers}
    )
    assert contestant.asked_for("forehand-asgi:4").start.workers == 4


def test_who_starves_is_asked_of_everybody_with_threads() -> None:
    played = [contestant.asked_for(name) for name in scenario.asked_for("starvation").servers]
    everybody = contestant.everybody().values()
    threaded = [one for one in everybody if any("{threads}" in word for word in one.start.command)]
    assert len(threaded) > 20, "the word is another one"
    assert {one.folder for one in threaded} <= {one.folder for one in played}


def test_every_article_has_its_scenario_with_its_figures() -> None:
    by_letter = {each.letter: each for each in scenario.everything().values()}
    for letter in ARTICLES:
        assert by_letter[letter].history, f"{letter} prints nothing of its article"


@pytest.mark.parametrize("name", scenario.everything())
def test_a_scenario_names_servers_that_there_are_and_makes_plans(name: str) -> None:
    found = scenario.everything()[name]
    for server in found.servers:
        contestant.asked_for(server)
    assert set(found.profiles) == {"quick", "full"}
    assert found.question.endswith("?")
    for profile in found.profiles.values():
        for point in profile.points:
            made = plan(found, profile, point, Aim(8000))
            assert made["requests"] or found.kind == "mixed"
    for request in found.requests:
        assert asked(found, request)["expect"]["status"]


def longest(name: str, servers: int) -> float:
    """Seconds of a quick run in which each point has to be waited out: start, verification and installing included."""
    profile = scenario.everything()[name].profiles["quick"]
    point = profile.seconds + profile.drain_s + 1
    turn = STARTUP_SECONDS + profile.warmup_s + point * len(profile.points)
    return servers * (profile.rounds * turn + INSTALL_AND_VERIFY_S)


def test_a_quick_sweep_of_eight_servers_takes_a_quarter_of_an_hour_at_most_and_make_lab_three_minutes() -> None:
    assert longest("http-1.1-sweep", 8) <= 14 * 60
    assert longest("hello", 3) <= 180


@pytest.mark.parametrize(
    "path", sorted(contestant.FOLDER.glob("*/*.py")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_a_launcher_says_how_it_is_called(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)


@pytest.mark.parametrize(
    "asked_name, said",
    [
        ("gunicron", "did you mean 'gunicorn'?"),
        ("bjoern:3", "is a single process"),
        ("gunicorn:900", "workers are 1 to 64"),
        ("GUNICORN!", "there is no server"),
    ],
)
def test_a_server_that_there_is_not_is_told_with_the_nearest(asked_name: str, said: str) -> None:
    with pytest.raises(Problem) as problem:
        contestant.asked_for(asked_name)
    assert said in str(problem.value)


def test_a_name_has_variant_era_and_workers() -> None:
    found = contestant.asked_for("gunicorn-nginx@2010:3")
    assert (found.era, found.start.front, found.start.workers) == ("2010", "nginx", 3)
    assert found.install.packages == ("gunicorn==0.6.4",)


def test_a_misspelt_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "contestant.toml").write_text('title = "M"\nflavour = "thread"\n[start]\ncomand = ["x"]\n')
    monkeypatch.setenv("FOREHAND_LAB_CONTESTANTS", str(tmp_path))
    with pytest.raises(Problem) as problem:
        contestant.everybody()
    assert "did you mean 'command'?" in str(problem.value)


def test_a_scenario_is_found_by_name_and_letter_and_the_nearest_is_told() -> None:
    assert scenario.asked_for("a1") is scenario.asked_for("http-1.0-sweep")
    with pytest.raises(Problem) as problem:
        scenario.asked_for("http-1.0-swep")
    assert "http-1.0-sweep" in str(problem.value)


SHORTEST = 'kind = "closed"\n[profile.quick]\npoints = [1]\nseconds = 1\nrounds = 6\n'


def test_a_scenario_of_five_lines_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SHORTEST)
    found = scenario.from_file(path)
    assert (found.title, found.expected, found.requests[0].target) == ("mine", "", "/")


@pytest.mark.parametrize(
    "text, said",
    [
        ('title = "M"\nkind = "sweep"\nquestoin = "?"\n', "there is no key 'questoin'; did you mean 'question'?"),
        ('title = "M"\n', "kind is missing"),
        ('kind = "closed"\n', "profile is missing"),
        ('kind = "clsoed"\n[profile.quick]\npoints = [1]\nseconds = 1\nrounds = 1\n', "kind is one of sweep, closed"),
        ('kind = "closed"\n[profile.quick]\nseconds = 1\nrounds = 1\n', "profile.quick.points is missing"),
        ('kind = "closed"\n[profile.quik]\npoints = [1]\n', "no profile 'quik'; did you mean 'quick'?"),
        (SHORTEST.replace("[1]", "1"), "profile.quick.points is a list, not 1"),
        (SHORTEST + '[application]\nthreads = "8"\n', "application.threads is a whole number, not '8'"),
        (SHORTEST + "[application]\nthreads = true\n", "application.threads is a whole number, not True"),
        (SHORTEST + '[application]\npth = "."\n', "there is no key 'application.pth'; did you mean 'path'?"),
        (SHORTEST + '[application]\ninterface = "cgi"\n', "application.interface is one of auto, wsgi, asgi"),
        (SHORTEST + '[load]\nhttp = "3"\n', "load.http is one of 1.0, 1.1, 2, not '3'"),
        (SHORTEST + "[load]\nstreams = 2\n", 'load.streams needs load.http = "2"'),
        (SHORTEST + '[load]\nhttp = "2"\npipeline = 2\n', "are for HTTP/1"),
        (SHORTEST + "[load]\nresume = true\n", "load.resume needs load.tls"),
        (SHORTEST + '[request]\ntarget = "/"\n', "written as [[request]]"),
        (SHORTEST + "oops = \n", "Invalid value"),
    ],
)
def test_a_scenario_that_cannot_be_used_is_told_with_its_very_path(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(Problem) as problem:
        scenario.from_file(path)
    assert str(problem.value).startswith(f"{path}: ") and said in str(problem.value)


def test_every_key_of_a_scenario_is_in_its_document() -> None:
    page = (scenario.FOLDER / "README.md").read_text()
    documented = set(re.findall(r"`([a-z_0-9]+)`", page))
    known = {key for section in scenario.TABLES.values() for key in section}
    assert known - documented == set()


def test_a_quick_profile_has_rounds_enough_to_tell_servers_apart() -> None:
    few = [name for name, each in scenario.everything().items() if each.profiles["quick"].rounds < LEAST_PAIRS]
    # A client of mayhem lives for a minute, and of faults no two servers are compared by figures.
    assert few == ["mayhem", "durability"]


def test_how_each_contestant_is_started_is_reviewed_in_the_page_on_bias() -> None:
    table = (contestant.HERE / "BIAS.md").read_text().partition("## How each is started")[2]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("|")]
    named = {name.strip() for row in rows for name in row[1].split(",")}
    folders = {path.parent.name for path in contestant.FOLDER.glob("*/contestant.toml")}
    assert folders - named == set()
    assert all(len(row) == 7 and all(cell.strip() for cell in row[1:6]) for row in rows), "no cell is empty"


@pytest.mark.parametrize(
    "name, option",
    [
        ("waitress", "--asyncore-use-poll"),
        ("waitress-nginx", "--asyncore-use-poll"),
        ("granian", "--backpressure"),
        ("gunicorn-threads", "--worker-connections"),
        ("uwsgi-http-threads", "--threads"),
    ],
)
def test_no_contestant_is_held_to_fewer_connections_or_threads_than_the_scenario_asks_for(
    name: str, option: str
) -> None:
    assert option in contestant.asked_for(name).start.command


@pytest.mark.parametrize(
    "folder, lifted",
    [
        ("hypercorn", "keep_alive_max_requests = 1000000000"),
        ("nginx", "keepalive_requests 1000000000;"),
        ("apache", "MaxKeepAliveRequests 0"),
        ("mod_wsgi", "MaxKeepAliveRequests 0"),
    ],
)
def test_no_contestant_ends_a_connection_after_so_many_requests(folder: str, lifted: str) -> None:
    known = [each for each in contestant.everybody().values() if each.folder.name == folder]
    assert len(known) > 0
    for each in known:
        names = [*each.start.files, *(word.rpartition("/")[2] for word in each.start.command if "{folder}/" in word)]
        assert any(lifted in (each.folder / name).read_text() for name in names), each.name
