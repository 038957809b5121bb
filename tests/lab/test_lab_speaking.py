"""TLS and HTTP/2 of the lab: what a scenario says, who takes part, and real servers under a real load."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import laboratory
import pytest
from forehand_lab import contestant, engine, lineup, records, scenario, speaking
from forehand_lab.plan import Aim, plan
from forehand_lab.problem import Problem
from laboratory import lab

try:
    engine.found()
except Problem:
    pytest.skip("forehand-load is not built: make load", allow_module_level=True)

SCENARIOS = ("hello-tls", "hello-h2", "hello-h2c", "file-tls", "handshakes", "handshakes-resumed")
BRIEF = ("--profile", "quick", "--rounds", "1", "--seconds", "0.5", "--points", "2")
# HTTPS by the standard library: no HTTP/2, and an answer of its own.
PLAIN_TLS = """
import ssl, sys
from wsgiref.simple_server import make_server
host, port, certificate, key, app, answer = sys.argv[1:]
module, _, attribute = app.partition(":")
pong = getattr(__import__(module), attribute)
def application(environ, start_response):
    body = pong(environ, start_response)
    return [b"Ping!"] if answer == "wrong" else body
server = make_server(host, int(port), application)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """Places of its own, and two contestants that speak TLS and no HTTP/2, one of which answers wrongly."""
    for answer in ("right", "wrong"):
        folder = tmp_path / "contestants" / answer
        folder.mkdir(parents=True)
        (folder / "serve.py").write_text(PLAIN_TLS)
        words = ["{python}", "{folder}/serve.py", "{host}", "{port}", "{certificate}", "{key}", "{app}", answer]
        (folder / "contestant.toml").write_text(
            f'title = "{answer}"\nflavour = "thread"\n[install]\npython = ["own"]\n[start]\ncommand = {words}\n'
            '[serves]\nscheme = "https"\n'
        )
    return laboratory.surroundings(tmp_path, FOREHAND_LAB_CONTESTANTS=str(tmp_path / "contestants"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_server_of_a_scenario_is_started_as_the_load_speaks(name: str) -> None:
    found = scenario.asked_for(name)
    families = {contestant.asked_for(server).folder.name for server in found.servers}
    assert families == {"forehand", "granian", "hypercorn", "nginx", "caddysnake"}
    for server in found.servers:
        assert contestant.asked_for(server).serves.scheme == speaking.wanted(found.load), server


def test_a_plan_says_what_is_spoken_and_whom_to_believe() -> None:
    found = scenario.asked_for("hello-h2")
    made = plan(found, found.profiles["quick"], 4, Aim(8443, certificate="-----BEGIN"))
    assert (made["url"], made["http"]) == ("https://127.0.0.1:8443/", "2")
    assert made["tls"] == {"ca": "-----BEGIN", "resume": False}
    assert made["load"] == {"kind": "closed", "connections": 4, "streams": 8}
    clear = scenario.asked_for("hello-h2c")
    made = plan(clear, clear.profiles["quick"], 4, Aim(8000))
    assert (made["url"], made["http"], "tls" in made) == ("http://127.0.0.1:8000/", "2", False)


def test_a_load_is_said_in_words() -> None:
    assert speaking.said({}) == "HTTP/1.1 in the clear"
    assert speaking.said({"http": "2", "streams": 8}) == "HTTP/2 in the clear, 8 streams on each connection"
    assert speaking.said({"tls": True}) == "HTTP/1.1 within TLS, every handshake a full one"
    assert speaking.said({"tls": True, "resume": True}).endswith("handshakes resumed with tickets")


def test_a_server_that_is_started_otherwise_is_left_out_with_the_reason() -> None:
    found = scenario.asked_for("hello-tls")
    named = lineup.named("wsgiref,forehand,forehand-h2c,forehand-nginx", found)
    why = [place.why for place in lineup.assembled(named, found, None, {})]
    refused = "speaks HTTP in the clear as it is started, and this load HTTPS"
    assert why[0] == why[3] == refused, "nobody of that name does"
    assert why[1] == f"{refused}: forehand-tls does"
    assert why[2] == "speaks HTTP/2 in the clear as it is started, and this load HTTPS: forehand-tls does"


def test_a_certificate_is_of_the_host_and_believed_for_itself_alone(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        speaking.certified(tmp_path / name, "lab.example")
    assert os.stat(tmp_path / "one/key.pem").st_mode & 0o777 == 0o600
    one, other = ((tmp_path / name / "cert.pem").read_text() for name in ("one", "other"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "one/cert.pem", tmp_path / "one/key.pem")
    assert agrees(server, speaking.context(one, ("h2",)), "lab.example")
    assert agrees(server, speaking.context(one, ("h2",)), "127.0.0.1")
    assert not agrees(server, speaking.context(one, ("h2",)), "elsewhere.example")
    assert not agrees(server, speaking.context(other, ("h2",)), "lab.example")
    with pytest.raises(Problem):
        speaking.certified(tmp_path / "no-such-folder", "lab.example")


def agrees(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> bool:
    """Whether a client of that context agrees on TLS with the server, in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    one, other = client.wrap_bio(down, up, server_hostname=name), server.wrap_bio(up, down, server_side=True)
    done = False
    for _ in range(4):
        for half in (one, other):
            try:
                half.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
            done |= half is one
    return done


@pytest.mark.apart
def test_who_speaks_no_http2_or_answers_wrongly_is_found_out_within_tls(surroundings: dict[str, str]) -> None:
    told = lab(surroundings, "verify", "hello-h2", "--servers", "right")
    assert told.returncode == 1 and "right: lacks HTTP/2, which this scenario needs" in told.stdout
    told = lab(surroundings, "verify", "handshakes", "--servers", "right,wrong")
    assert told.returncode == 1 and "same       right" in told.stdout
    assert "wrong: answers wrongly" in told.stdout and "b'Ping!', not b'Pong!'" in told.stdout


@pytest.mark.apart
@pytest.mark.parametrize(
    "name, server", [("hello-h2", "forehand-tls"), ("hello-h2c", "forehand-h2c"), ("handshakes", "forehand-tls")]
)
def test_a_run_with_tls_or_http2_makes_a_record_and_the_record_a_report(
    surroundings: dict[str, str], tmp_path: Path, name: str, server: str
) -> None:
    out = str(tmp_path / "records" / "r")
    told = lab(surroundings, "run", name, "--servers", server, *BRIEF, "--out", out)
    assert told.returncode == 0, told.stderr
    (point,) = (fact for fact in records.read(out) if fact["kind"] == "point")
    totals, errors = point["result"]["totals"], point["result"]["errors"]
    assert totals["replies"] > 0 and errors == {}, errors
    opened, handshakes = (totals["connections"][key] for key in ("opened", "handshakes"))
    # A connection for each request, or as many as the point says.
    assert opened >= totals["replies"] if name == "handshakes" else opened == 2
    assert handshakes == (0 if name == "hello-h2c" else opened)
    told = lab(surroundings, "report", out)
    page = (tmp_path / "records/r/report.html").read_text()
    assert told.returncode == 0 and speaking.said(scenario.asked_for(name).load) in page
