"""What is the user's: an application that the lab does not have, and servers that run already.

Turns --app, --url and their like into a scenario and contestants, and finds the right answers: by calling the
application without a server, in an environment like those of its servers, or by asking the first of the running ones.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from forehand_lab import HERE, lineup
from forehand_lab.behaviour import answers_to
from forehand_lab.contestant import Contestant, Install, Serves, Start
from forehand_lab.environments import Environment, obtained
from forehand_lab.launching import surroundings
from forehand_lab.problem import FAILED, USAGE, Problem
from forehand_lab.scenario import INTERFACES, Answer, Request, Scenario, everything
from forehand_lab.speaking import ANYBODY, At, vouched_for, wanted
from rich.console import Console
from rich.markup import escape

CALL_SECONDS = 120
DEFAULT_SCENARIO = "hello"
# How a server that runs already may be spoken to, and its port where none is named.
DOORS = {"http": 80, "https": 443}
ANSWER_SECONDS = 10.0
NAME = re.compile(r"[a-z][\w-]*")
SAID_LINES = 8
# What a server has to hand on of an application's headers; the others may be made by either.
KEPT = ("content-type", "content-length")


def arguments(parser: argparse.ArgumentParser) -> None:
    """What of the user's own takes part."""
    parser.add_argument(
        "--app",
        nargs=2,
        metavar=("DIR", "MODULE:ATTRIBUTE"),
        help="an application of your own, instead of the scenario's",
    )
    parser.add_argument("--interface", choices=INTERFACES, help="of --app; default: auto, by looking at it")
    parser.add_argument("--target", metavar="/PATH", help="what to ask it for; default: what the scenario asks for")
    parser.add_argument(
        "--package", action="append", default=[], metavar="NAME==VERSION", help="that it needs; may be repeated"
    )
    parser.add_argument("--requirements", metavar="FILE", help="a file with the packages that it needs")
    parser.add_argument(
        "--url", action="append", default=[], metavar="[NAME=]URL",
        help="a server that runs already, as http://127.0.0.1:9000/ or https://shop.example/; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--cacert", metavar="FILE",
        help="authorities, in PEM, one of which has issued the certificate of --url https://; default: this machine's",
    )  # fmt: skip
    parser.add_argument(
        "-k", "--insecure", action="store_true", help="believe whatever certificate is shown by --url https://"
    )


class There(NamedTuple):
    """Servers that run already, and who is believed to be one within TLS."""

    urls: Mapping[str, str]
    # A file; none: the authorities that this machine believes.
    cacert: str = ""
    insecure: bool = False

    @classmethod
    def of_command(cls, asked: argparse.Namespace) -> There:
        """Those of a command."""
        return cls(named_urls(asked.url), asked.cacert or "", asked.insecure)

    @classmethod
    def of_record(cls, first: Mapping[str, Any]) -> There:
        """Those of a record."""
        return cls(first.get("urls", {}), first.get("cacert", ""), first.get("insecure", False))


def applied(asked: argparse.Namespace, scenario: Scenario) -> Scenario:
    """The scenario with an application of one's own in the place of its. Raises Problem for what cannot be."""
    if not asked.app:
        for word in ("interface", "package", "requirements"):
            if getattr(asked, word):
                raise Problem(
                    USAGE, f"--{word} is about an application of your own", "name it: --app DIR MODULE:ATTRIBUTE"
                )
    urls = named_urls(asked.url)
    schemes = {urlsplit(url).scheme for url in urls.values()}
    if len(schemes) > 1:
        raise Problem(USAGE, "--url: one is spoken to within TLS, another in the clear", "a run is of one of the two")
    if (asked.cacert or asked.insecure) and "https" not in schemes:
        raise Problem(USAGE, "--cacert and --insecure are about the certificate of --url https://HOST/")
    if asked.cacert and asked.insecure:
        raise Problem(USAGE, "--cacert says who is believed, and --insecure that everybody is: leave one of them out")
    if schemes == {"http"} and scenario.load.get("tls"):
        raise Problem(USAGE, f"{scenario.name} is spoken within TLS: a URL for it is like https://127.0.0.1:8443/")
    if not asked.app and not asked.url:
        if asked.target:
            raise Problem(USAGE, "--target is for --app or --url: a scenario says itself what it asks for")
        return scenario
    if scenario.kind == "faults":
        raise Problem(USAGE, f"{scenario.name} asks for the faults of the lab's own application, and measures no other")
    targets = {f"{parts.path}?{parts.query}" if parts.query else parts.path for parts in map(urlsplit, urls.values())}
    if len(targets) > 1:
        raise Problem(USAGE, f"--url: the paths differ: {', '.join(sorted(targets))}", "all are asked for the same")
    target = asked.target or next((path for path in targets if path not in ("", "/")), None)
    requests = scenario.requests
    if target:
        if not target.startswith("/"):
            raise Problem(USAGE, f"--target {target}: it begins with a slash")
        kept = next((request for request in requests if request.alone), None)
        requests = tuple(request for request in (Request(target=target), kept) if request)
    setting = replace(scenario.setting, module="", path="", prepare="", environ=(), packages=())
    what = "a running server" if list(urls) == ["running"] else " and ".join(urls)
    if asked.app:
        folder, name = asked.app
        module, _, attribute = name.partition(":")
        if not Path(folder).is_dir():
            raise Problem(USAGE, f"--app {folder}: there is no such folder")
        if not re.fullmatch(r"\w+(\.\w+)*", module):
            raise Problem(USAGE, f"--app {folder} {name}: it is named as MODULE:ATTRIBUTE, as in shop.wsgi:application")
        setting = replace(
            setting, module=module, attribute=attribute or "application", path=str(Path(folder).resolve()),
            packages=(*asked.package, *required(asked.requirements)), interface=asked.interface or "auto",
        )  # fmt: skip
        what = f"{module}:{setting.attribute}"
    question = f"How is {what} served" if asked.app else f"What does {what} do"
    return replace(
        scenario, setting=setting, requests=requests, servers=(), needs=(), history=(), letter="",
        load={**scenario.load, "tls": True} if schemes == {"https"} else scenario.load,
        title=f"{what}, as in “{scenario.title}”",
        question=f"{question} under the load of “{scenario.title}”?",
        expected="", source="an application of your own" if asked.app else "servers that ran already",
    )  # fmt: skip


def required(path: str | None) -> list[str]:
    """The packages of a requirements file; options in it, which pip would follow, are refused and not lost."""
    if not path:
        return []
    try:
        lines = [line.split(" #")[0].strip() for line in Path(path).read_text().splitlines()]
    except OSError as error:
        raise Problem(USAGE, f"--requirements {path}: {error.strerror}") from None
    found = [line for line in lines if line and not line.startswith("#")]
    for line in found:
        if line.startswith("-"):
            raise Problem(USAGE, f"--requirements {path}: the lab reads packages, one a line, and not '{line}'")
    return found


def named_urls(given: Sequence[str]) -> dict[str, str]:
    """`NAME=URL`, or a URL alone. Raises Problem for what the load engine cannot reach."""
    found: dict[str, str] = {}
    for number, text in enumerate(given, 1):
        name, equals, url = text.partition("=")
        if not equals or "/" in name:
            name, url = ("running" if len(given) == 1 else f"running-{number}"), text
        parts = urlsplit(url)
        try:
            fine = parts.scheme in DOORS and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fine = False
        if not fine:
            raise Problem(USAGE, f"--url {text}: a URL is like http://127.0.0.1:9000/ or https://shop.example/")
        if not NAME.fullmatch(name):
            raise Problem(USAGE, f"--url {text}: a name has small letters, digits and hyphens")
        if name in found:
            raise Problem(USAGE, f"--url: {name} is named twice")
        found[name] = url
    return found


def running(name: str, there: There) -> Contestant:
    """A server that runs already, as a contestant. Raises Problem: it cannot be found, or is not believed."""
    url = there.urls[name]
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or DOORS[parts.scheme]
    try:
        address = socket.gethostbyname(host)
    except OSError as error:
        raise Problem(USAGE, f"--url {url}: {host}: {error.strerror}") from None
    certificate = ""
    if parts.scheme == "https":
        # A certificate is of a name, which is looked up again by whoever connects.
        address, certificate = host, believed((host, port), there)
    return Contestant(
        name=name, folder=HERE, title=f"{name} ({parts.scheme}://{parts.netloc})", flavour="process", era="today",
        note="It ran already: it was neither started nor ended here, and had the processors that it has.",
        install=Install(), start=Start(command=()), serves=Serves(("wsgi", "asgi"), scheme=parts.scheme),
        at=(address, port), certificate=certificate,
    )  # fmt: skip


def believed(door: tuple[str, int], there: There) -> str:
    """The certificate that a server shows, in PEM, if somebody who is believed has issued it. Raises Problem."""
    if there.insecure:
        return ANYBODY
    where = f"{door[0]}:{door[1]}"
    try:
        return vouched_for(door, there.cacert, ANSWER_SECONDS)
    except ssl.SSLCertVerificationError as error:
        hint = "--cacert FILE names the authority that has issued it; --insecure (-k) believes whatever is shown"
        raise Problem(FAILED, f"the certificate of {where} is not believed: {error.verify_message}", hint) from None
    except ssl.SSLError as error:
        plain = error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")
        hint = "it speaks plain HTTP, as it looks: write http:// in place of https://" if plain else ""
        raise Problem(FAILED, f"no TLS with {where}: {error.reason or error}", hint) from None
    except FileNotFoundError:
        raise Problem(USAGE, f"--cacert {there.cacert}: there is no such file") from None
    except OSError as error:
        raise Problem(FAILED, f"nobody answers at {where}: {error.strerror or error}") from None


def servers_for(scenario: Scenario) -> tuple[str, ...]:
    """Who serves an application of one's own unless somebody is named: those of the small scenarios."""
    if scenario.setting.interface == "asgi" and wanted(scenario.load) == "http":
        return everything()["asgi"].servers
    return everything()[{"http": "hello", "https": "hello-tls", "h2c": "hello-h2c"}[wanted(scenario.load)]].servers


def answered(scenario: Scenario, python: str | None, servers: Sequence[Contestant]) -> Scenario:
    """The scenario with the right answers of an application of one's own, its interface, and who serves it."""
    setting = scenario.setting
    if not setting.own:
        return scenario
    if setting.path:
        if not Path(setting.path).is_dir():
            hint = "[application] path, or --app, names the folder that the application is in"
            raise Problem(USAGE, f"there is no folder {setting.path}", hint)
        interface, answers = called(scenario, python)
        scenario = replace(scenario, setting=replace(setting, interface=interface))
    else:
        answers = asked_of(scenario, next(each for each in servers if each.at))
    for request, answer in answers.items():
        if answer.status >= 500:
            shown = f"{request.method} {request.target}"
            raise Problem(FAILED, f"the application answers {shown} with {answer.status}: there is nothing to measure")
    return replace(scenario, answers=answers)


def lined_up(
    scenario: Scenario, named: list[Contestant], given: There, python: str | None, console: Console
) -> tuple[Scenario, list[Contestant]]:
    """The scenario with its right answers, and who takes part: those named or the scenario's, and those that run."""
    there = [running(name, given) for name in given.urls]
    scenario = answered(scenario, python, there)
    for doubt in doubts(scenario):
        console.print(escape(doubt), style="yellow")
    if not scenario.servers:
        only_there = bool(there) and not scenario.setting.path
        scenario = replace(scenario, servers=() if only_there else servers_for(scenario))
    return scenario, [*(named or lineup.named(None, scenario)), *there]


def doubts(scenario: Scenario) -> list[str]:
    """What a person should know of the answers that servers are held to."""
    found = []
    for request, answer in scenario.answers.items():
        shown = f"{request.method} {request.target}"
        if answer.status >= 300 and request.status == 200:
            found.append(f"{shown} is answered with {answer.status}; --target names another path")
        if not answer.firm:
            found.append(f"{shown} is answered differently each time: only status and type are compared")
    return found


def asked_of(scenario: Scenario, server: Contestant) -> dict[Request, Answer]:
    """What the first of the running servers says, twice each."""
    assert server.at
    found = {}
    for request in scenario.requests:
        try:
            at = At(*server.at, server.serves.scheme, server.certificate)
            first, second = (answers_to(at, request) for _ in range(2))
        except (OSError, ValueError) as error:
            host, port = server.at
            why = str(error) or type(error).__name__
            raise Problem(FAILED, f"{server.title} does not answer at {host}:{port}: {why}") from None
        found[request] = agreed(
            [
                {"status": each.status, "headers": list(each.headers.items()), "body": each.body}
                for each in (first, second)
            ]
        )
    return found


def called(scenario: Scenario, python: str | None) -> tuple[str, dict[Request, Answer]]:
    """The interface, and what the application says to each request. Raises Problem with the end of its traceback."""
    setting = scenario.setting
    reference = Contestant(
        name="reference", folder=HERE / "reference", title="reference", flavour="process", era="today", note="",
        install=Install(python=("any",) if python else ("own",)), start=Start(command=()), serves=Serves(),
    )  # fmt: skip
    here = obtained(reference, setting.packages, python)
    asked = [
        {
            "method": request.method, "target": request.target, "headers": list(map(list, request.headers)),
            "body": base64.b64encode(request.sent_body()).decode(),
        }
        for request in scenario.requests
    ]  # fmt: skip
    words = {"module": setting.module, "attribute": setting.attribute, "interface": setting.interface}
    with tempfile.TemporaryDirectory(prefix="lab-call-") as folder:
        plan, told = Path(folder, "asked.json"), Path(folder, "told.json")
        plan.write_text(json.dumps({**words, "prepare": setting.prepare, "requests": asked}))
        environ = surroundings(reference, here, setting, {"apps": setting.path, "scratch": folder})
        _call(here, [str(HERE / "calling.py"), str(plan), str(told)], environ, setting.path, scenario)
        found = json.loads(told.read_text())
    for replies in found["told"]:
        for reply in replies:
            reply["body"] = base64.b64decode(reply["body"])
    return found["interface"], {
        request: agreed(replies) for request, replies in zip(scenario.requests, found["told"], strict=True)
    }


def _call(here: Environment, words: list[str], environ: Mapping[str, str], folder: str, scenario: Scenario) -> None:
    named = f"{scenario.setting.module}:{scenario.setting.attribute} in {folder}"
    hint = "packages that it needs are named by --package or --requirements, or in [application] packages"
    try:
        told = subprocess.run(
            [here.python or sys.executable, *words], env=dict(environ), cwd=folder, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=CALL_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Problem(FAILED, f"{named} had not answered after {CALL_SECONDS} s, called without a server") from None
    if told.returncode:
        said = [line for line in told.stderr.splitlines() if line.strip()][-SAID_LINES:]
        raise Problem(FAILED, f"{named} fails when it is called without a server:\n" + "\n".join(said), hint)


def agreed(replies: Sequence[Mapping[str, Any]]) -> Answer:
    """One answer of two: what both say. Pure."""
    first, second = replies
    headers = tuple((str(name), str(value)) for name, value in first["headers"] if name.lower() in KEPT)
    firm = (first["status"], first["body"]) == (second["status"], second["body"])
    return Answer(int(first["status"]), headers, first["body"], firm)
