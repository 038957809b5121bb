"""What is the user's own: an application, a running server, a scenario. Real servers; no figure is judged."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from wsgiref.simple_server import WSGIServer, make_server

import laboratory
import pytest
from forehand_lab import engine, own, records, scenario
from forehand_lab.lineup import assembled, named
from forehand_lab.own import agreed, named_urls, required
from forehand_lab.places import Setting
from forehand_lab.problem import Problem
from laboratory import lab
from serving import Serving
from tlsfiles import Authority

try:
    engine.found()
except Problem:
    pytest.skip("forehand-load is not built: make load", allow_module_level=True)

pytestmark = pytest.mark.apart

BRIEF = ("--rounds", "1", "--seconds", "0.5", "--points", "2")
WSGI = """
import helper_of_mine
def application(environ, start_response):
    body = ("%s %s" % (environ["PATH_INFO"], helper_of_mine.WORD)).encode()
    start_response("200 OK", [("Content-Type", "text/x-mine"), ("Content-Length", str(len(body)))])
    return [body]
def moody(environ, start_response):
    body = ("I am on port %s" % environ["SERVER_PORT"]).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
def broken(environ, start_response):
    raise RuntimeError("it was always broken")
"""
ASGI = """
state = {}
async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        state["ready"] = b"ready"
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = state["ready"] + b" \\xff " + scope["path"].encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"image/x-mine")]})
    await send({"type": "http.response.body", "body": body})
"""
SCENARIO = """
title = "Mine"
kind = "closed"
servers = ["wsgiref", "forehand"]
[application]
path = "site"
module = "mine.wsgi"
[[request]]
target = "/items"
[profile.quick]
points = [1, 2]
seconds = 0.5
rounds = 2
warmup_s = 0
"""


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    return laboratory.surroundings(tmp_path)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder as users have it: a package, beside a module that it needs, which is in nobody's path."""
    folder = tmp_path / "site"
    (folder / "mine").mkdir(parents=True)
    (folder / "mine/__init__.py").touch()
    (folder / "mine/wsgi.py").write_text(WSGI)
    (folder / "mine/asgi.py").write_text(ASGI)
    (folder / "helper_of_mine.py").write_text("WORD = 'from my own module'\n")
    return folder


@pytest.fixture
def running() -> Iterator[WSGIServer]:
    """A server that ran before the lab came, and that outlives it."""

    def application(environ: dict, start_response: object) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "4")])  # type: ignore[operator]
        return [b"mine"]

    with make_server("127.0.0.1", 0, application) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        assert thread.is_alive()
        server.shutdown()
        thread.join()


def record_of(path: Path) -> tuple[dict, list[dict]]:
    facts = records.read(str(path))
    return facts[0], [fact for fact in facts if fact["kind"] == "point"]


def test_an_application_of_ones_own_is_measured_and_held_to_what_it_says_itself(
    surroundings: dict[str, str], site: Path, tmp_path: Path
) -> None:
    out = tmp_path / "records/r"
    words = (
        "--app",
        str(site),
        "mine.wsgi:application",
        "--target",
        "/items?n=1",
        "--servers",
        "wsgiref,forehand,granian-asgi",
    )
    told = lab(surroundings, "run", *words, *BRIEF, "--json", "--out", str(out))
    assert told.returncode == 0, told.stderr
    assert "does not serve ASGI" not in told.stderr and "granian-asgi: does not serve WSGI" in told.stderr
    assert "which this application speaks: granian does" in told.stderr
    first, points = record_of(out)
    assert first["setting"]["path"] == str(site) and first["setting"]["interface"] == "wsgi"
    assert {fact["server"] for fact in points} == {"wsgiref", "forehand"}
    for fact in points:
        (asked,) = fact["plan"]["requests"]
        assert asked["target"] == "/items?n=1" and asked["expect"]["body"] == "/items from my own module"
        assert fact["result"]["totals"]["replies"] > 0 and fact["result"]["errors"] == {}
    shown = json.loads(told.stdout)
    assert {point["server"] for point in shown["points"]} == {"wsgiref", "forehand"}


def test_an_asgi_application_is_found_out_and_called_within_its_lifespan(
    surroundings: dict[str, str], site: Path, tmp_path: Path
) -> None:
    out = tmp_path / "records/r"
    words = ("--app", str(site), "mine.asgi:application", "--servers", "forehand-asgi-asyncio,wsgiref", *BRIEF)
    told = lab(surroundings, "run", *words, "--out", str(out))
    assert told.returncode == 0, told.stderr
    assert "wsgiref: does not serve ASGI" in told.stderr
    (point,) = record_of(out)[1]
    # Bytes that are no text: a plan holds their number.
    assert point["plan"]["requests"][0]["expect"] == {"status": [200], "length": len(b"ready \xff /")}
    assert point["result"]["totals"]["replies"] > 0 and point["result"]["errors"] == {}


@pytest.mark.parametrize(
    "words, status, said",
    [
        (("mine.wsgi:broken",), 1, "RuntimeError: it was always broken"),
        (("mine.wsgi:absent",), 1, "has no attribute 'absent'"),
        (("nowhere:application",), 1, "there is no module 'nowhere'"),
        (("mine wsgi",), 2, "MODULE:ATTRIBUTE"),
    ],
)
def test_an_application_that_fails_is_told_with_its_reason_and_leaves_no_record(
    surroundings: dict[str, str], site: Path, words: tuple, status: int, said: str, tmp_path: Path
) -> None:
    told = lab(surroundings, "run", "--app", str(site), *words, "--servers", "wsgiref", *BRIEF)
    assert (told.returncode, said in told.stderr) == (status, True), told.stderr
    assert not (tmp_path / "records").exists()


def test_a_running_server_is_measured_where_it_is_and_goes_on(
    surroundings: dict[str, str], running: WSGIServer, tmp_path: Path
) -> None:
    out = tmp_path / "records/r"
    url = f"http://127.0.0.1:{running.server_port}/"
    told = lab(surroundings, "run", "--url", f"shop={url}", *BRIEF, "--out", str(out))
    assert told.returncode == 0, told.stderr
    first, points = record_of(out)
    assert first["servers"] == ["shop"] and first["urls"] == {"shop": url}
    (fact,) = points
    assert fact["plan"]["requests"][0]["expect"] == {"status": [200], "body": "mine"}
    assert fact["result"]["totals"]["replies"] > 0
    # It is this very process, whose memory and processor time are looked at like any other server's.
    assert fact["samples"][0]["pss_kib"] > 0 and fact["cpu_s"] > 0


def test_a_running_server_is_measured_within_tls_where_its_certificate_is_believed(
    serve: Callable[..., Serving], surroundings: dict[str, str], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("shop", "localhost")
    # Its answers are the same by HTTP/1 and HTTP/2.
    served = serve(
        "callables:application", "--bind", "https://127.0.0.1:0", "--tls-cert", pair[0], "--tls-key", pair[1]
    )
    url = f"https://localhost:{served.port}/"
    believed = ("--cacert", str(authority.file))
    for number, words in enumerate(((*believed,), ("hello-h2", *believed), ("-k",))):
        at = url.replace("localhost", "127.0.0.1") if words == ("-k",) else url
        out = tmp_path / f"records/{number}"
        told = lab(surroundings, "run", *words, "--url", at, *BRIEF, "--out", str(out))
        assert told.returncode == 0, told.stderr
        first, (fact,) = record_of(out)
        assert first["load"]["tls"] is True and first["urls"] == {"running": at}
        assert fact["result"]["totals"]["replies"] > 0 and not fact["result"]["errors"]
        assert fact["plan"]["http"] == ("2" if "hello-h2" in words else "1.1")
        assert fact["plan"]["tls"].get("insecure", False) == (words == ("-k",))
    # Another's name; an authority that this machine does not know.
    for words, said in (
        (("--url", url.replace("localhost", "127.0.0.1"), *believed), "is not believed: IP address mismatch"),
        (("--url", url), f"the certificate of localhost:{served.port} is not believed: "),
    ):
        refused = lab(surroundings, "run", *words, *BRIEF, "--out", str(tmp_path / "records/none"))
        assert refused.returncode == 1 and said in refused.stderr and "-k" in refused.stderr, refused.stderr
        assert "Traceback" not in refused.stderr and not (tmp_path / "records/none").exists()


def test_a_url_where_nobody_listens_is_one_line(surroundings: dict[str, str], tmp_path: Path) -> None:
    with socket.socket() as held:
        # Bound, so that nobody else listens there meanwhile.
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        told = lab(surroundings, "run", "--url", f"http://127.0.0.1:{port}/", *BRIEF)
    assert told.returncode == 1 and f"does not answer at 127.0.0.1:{port}" in told.stderr
    assert "Traceback" not in told.stderr and not (tmp_path / "records").exists()


def test_a_url_that_asks_plain_http_for_tls_is_told_so(
    serve: Callable[..., Serving], surroundings: dict[str, str]
) -> None:
    at = serve("callables:application").url
    told = lab(surroundings, "run", "--url", at.replace("http:", "https:") + "/", *BRIEF)
    assert told.returncode == 1 and "write http:// in place of https://" in told.stderr, told.stderr
    assert "What does a running server do under the load of" in told.stdout + told.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        (("--url", "ftp://127.0.0.1/"), "a URL is like http://"),
        (("--url", "a=https://h/", "--url", "b=http://h/"), "one is spoken to within TLS, another in the clear"),
        (("hello-tls", "--url", "http://127.0.0.1:9000/"), "hello-tls is spoken within TLS"),
        (("--url", "http://127.0.0.1:9000/", "--insecure"), "about the certificate of --url https://"),
        (("--url", "https://127.0.0.1/", "-k", "--cacert", "x.pem"), "leave one of them out"),
        (("--url", "https://127.0.0.1:1/", "--cacert", "/no/such.pem"), "--cacert /no/such.pem: there is no such file"),
        (("--url", "127.0.0.1:9000"), "a URL is like http://"),
        (("--url", "http://127.0.0.1:9000/", "--servers", "forehand"), "what would they serve?"),
        (("--url", "a=http://h/x", "--url", "b=http://h/y"), "the paths differ"),
        (("hello", "--target", "/x"), "--target is for --app or --url"),
        (("hello", "--package", "django"), "--package is about an application of your own"),
        (("durability", "--url", "http://127.0.0.1:9000/"), "measures no other"),
        (("--app", "/no/such/folder", "a:b"), "there is no such folder"),
    ],
)
def test_what_does_not_go_together_is_one_line(surroundings: dict[str, str], words: tuple, said: str) -> None:
    told = lab(surroundings, "run", *words)
    assert told.returncode == 2 and said in told.stderr and "Traceback" not in told.stderr, told.stderr


def test_a_scenario_of_ones_own_goes_on_from_its_record_even_when_its_file_is_gone(
    surroundings: dict[str, str], site: Path, tmp_path: Path
) -> None:
    path = tmp_path / "my.toml"
    path.write_text(SCENARIO)
    out = tmp_path / "records/r"
    with laboratory.begun(surroundings, "run", str(path), "--servers", "forehand", "--out", str(out)) as process:
        end = time.monotonic() + laboratory.PATIENCE
        while time.monotonic() < end and process.poll() is None:
            if (out / records.FILE).exists() and '"kind":"point"' in (out / records.FILE).read_text():
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stderr
        said = process.stderr.read()
        assert process.wait(laboratory.PATIENCE) == 130, said
    path.unlink()
    # As the lab itself has printed it, from another folder than before.
    told = lab(surroundings, *said.split("forehand lab ")[1].split(), cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    points = record_of(out)[1]
    assert sorted((fact["round"], fact["point"]) for fact in points) == [(n, at) for n in (1, 2) for at in (1.0, 2.0)]
    assert {fact["plan"]["requests"][0]["expect"]["body"] for fact in points} == {"/items from my own module"}


def test_a_scenario_whose_application_is_not_there_is_told_in_one_line(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "my.toml"
    path.write_text(SCENARIO.replace('path = "site"', 'path = "nowhere"'))
    told = lab(surroundings, "run", str(path), "--servers", "forehand")
    assert told.returncode == 2 and f"there is no folder {tmp_path}/nowhere" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_run_in_which_nobody_starts_leaves_no_record_and_what_else_is_there_stays(
    surroundings: dict[str, str], site: Path, tmp_path: Path
) -> None:
    out = tmp_path / "records/r"
    out.mkdir(parents=True)
    (out / "mine.txt").write_text("kept")
    words = ("--app", str(site), "mine.wsgi:application", "--servers", "forehand-asgi-asyncio", *BRIEF)
    told = lab(surroundings, "run", *words, "--out", str(out))
    assert told.returncode == 1 and "no server is left to measure, and no record is kept" in told.stderr
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


def test_an_answer_that_differs_each_time_is_not_asked_of_servers(surroundings: dict[str, str], site: Path) -> None:
    told = lab(surroundings, "verify", "--app", str(site), "mine.wsgi:moody", "--servers", "wsgiref,forehand", "--json")
    assert told.returncode == 0, told.stderr
    assert "GET / is answered differently each time: only status and type are compared" in told.stderr
    assert json.loads(told.stdout)["fine"] is True


def test_two_answers_make_one() -> None:
    def reply(status: int, body: bytes) -> dict:
        return {"status": status, "headers": [["Content-Type", "a"], ["X-Id", "7"]], "body": body}

    firm = agreed([reply(200, b"x"), reply(200, b"x")])
    assert (firm.firm, firm.headers) == (True, (("Content-Type", "a"),))
    assert not agreed([reply(200, b"x"), reply(200, b"y")]).firm


def test_a_requirements_file_gives_packages_and_loses_no_option_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("# mine\ndjango==5.2  # the site\n\nwhitenoise\n")
    assert required(str(path)) == ["django==5.2", "whitenoise"]
    path.write_text("--index-url http://elsewhere/\n")
    with pytest.raises(Problem, match="and not '--index-url"):
        required(str(path))


def test_urls_have_names() -> None:
    assert named_urls(["http://h:1/"]) == {"running": "http://h:1/"}
    assert named_urls(["http://h:1/?a=b", "new=http://h:2/"]) == {"running-1": "http://h:1/?a=b", "new": "http://h:2/"}


def test_an_application_by_a_scenarios_path_is_beside_its_file(tmp_path: Path, site: Path) -> None:
    (tmp_path / "my.toml").write_text(SCENARIO)
    found = scenario.from_file(tmp_path / "my.toml")
    assert found.setting.path == str(site) and found.setting.own


def test_packages_of_an_application_are_in_every_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple] = []
    monkeypatch.setattr("forehand_lab.lineup.obtained", lambda contestant, extra, *more: asked.append(extra))
    found = scenario.built(
        "mine", {"kind": "closed", "profile": {"quick": {"points": [1], "seconds": 1, "rounds": 1}}}, "x"
    )
    setting = Setting(module="m", path=str(tmp_path), interface="wsgi", packages=("django==5.2",))
    found = scenario.Scenario(**{**vars(found), "setting": setting, "servers": ("wsgiref", "forehand")})
    assembled(named(None, found), found, None, {})
    assert asked == [("django==5.2",)] * 2
    assert own.servers_for(found) and own.servers_for(found) != own.servers_for(
        scenario.Scenario(**{**vars(found), "setting": Setting(interface="asgi")})
    )


def test_the_caller_needs_nothing_of_the_lab(site: Path, tmp_path: Path) -> None:
    request = {"method": "GET", "target": "/a%20b", "headers": [], "body": ""}
    asked = {
        "module": "mine.wsgi",
        "attribute": "application",
        "interface": "auto",
        "prepare": "",
        "requests": [request],
    }
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    words = [sys.executable, "-S", "-E", str(Path(own.__file__).with_name("calling.py"))]
    subprocess.run([*words, str(tmp_path / "asked.json"), str(tmp_path / "told.json")], cwd=site, check=True)
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["interface"] == "wsgi" and len(told["told"][0]) == 2 and os.path.exists(site)


@pytest.mark.parametrize(
    ("module", "attribute", "said"),
    [("mine.nowhere", "app", "there is no module 'mine.nowhere' in "),
     ("mine.wsgi", "app", "the module 'mine.wsgi' has no attribute 'app'")],
)  # fmt: skip
def test_what_is_not_there_to_be_called_is_one_line(
    site: Path, tmp_path: Path, module: str, attribute: str, said: str
) -> None:
    asked = {"module": module, "attribute": attribute, "interface": "auto", "prepare": "", "requests": []}
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    words = [sys.executable, "-S", "-E", str(Path(own.__file__).with_name("calling.py"))]
    done = subprocess.run([*words, str(tmp_path / "asked.json"), "x"], cwd=site, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith(said) and done.stderr.count("\n") == 1, done.stderr
