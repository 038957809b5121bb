"""deploy/kubernetes.yaml: its options are ours, its times fit, and its probes are answered as the kubelet asks them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from forehand import cli
from serving import Serving

RECIPE = (Path(__file__).resolve().parents[2] / "deploy/kubernetes.yaml").read_text()
#: How long after its graceful timeout a worker may say what it has cut.
LAST_WORD = 2


def arguments() -> list[str]:
    found = re.search(r"args: \[(.*?)\]", RECIPE, re.S)
    assert found
    return [word.strip().strip('"') for word in found[1].split(",")]


def number(key: str) -> int:
    return int(re.findall(rf"{key}: (\d+)", RECIPE)[0])


def test_the_pod_has_the_time_that_its_server_takes_to_stop() -> None:
    known, given = cli.parse(arguments())
    assert known.target == "shop.wsgi"
    needed = given["shutdown_delay"] + given["graceful_timeout"] + LAST_WORD
    assert number("terminationGracePeriodSeconds") >= needed
    ready = RECIPE.partition("readinessProbe")[2]
    period, failures = (int(re.findall(rf"{key}: (\d+)", ready)[0]) for key in ("periodSeconds", "failureThreshold"))
    assert period * failures < given["shutdown_delay"], "who asks hears of the end before it begins"


@pytest.mark.skipif(shutil.which("curl") is None, reason="apt-get install curl")
def test_its_probes_are_answered(serve: Callable[..., Serving]) -> None:
    words = ["127.0.0.1:0" if word.startswith("0.0.0.0:8") else word for word in arguments()[1:]]
    words = ["0.0.0.0:0" if word == "0.0.0.0:9100" else word for word in words]
    server = serve("own_pid:application", *words, "--workers", "1")
    server.says("  status  ")
    port = re.findall(r"status +http://0.0.0.0:(\d+)", server.log())[0]
    paths = re.findall(r"path: (/\w+), port: status", RECIPE)
    assert paths == ["/startupz", "/livez", "/readyz"]
    for path in paths:
        # The kubelet gives a probe one second, and asks by the pod's address.
        command = ["curl", "-sS", "--max-time", "1", "-o", "/dev/null", "-w", "%{http_code}", "-A", "kube-probe/1.31"]
        command += ["-H", "Host: 10.1.2.3:9100", f"http://127.0.0.1:{port}{path}"]

        def answer(command: list[str] = command) -> str:
            told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            # The kubelet asks again as well, where this machine was too busy to answer within a second.
            return told if told != "000" else ""

        assert server.until(answer) == "200", path
