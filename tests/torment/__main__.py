"""`python tests/torment`: torments a server with one seed after the other, and says what came of it.

Knows: the command line, what is shown meanwhile, the sum. Does not know: what a run does (`run.py`).

Exit status: 0 nothing is wrong, 1 something is; then each problem stands there with the command that repeats its run.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent), *(path for path in sys.path if Path(path or ".").resolve() != HERE)]

from torment import script  # noqa: E402
from torment.looking import Holding  # noqa: E402
from torment.run import DRIVERS, SETTINGS, Result, Run, Setting  # noqa: E402
from torment.verdict import percentile  # noqa: E402


def main() -> int:
    """The exit status."""
    given = arguments()
    begun = time.monotonic()
    results: list[Result] = []
    for setting in settings(given):
        spent = time.monotonic() - begun
        if given.seconds and spent > given.seconds:
            break
        show(given, results, setting, spent)
        try:
            result = Run(setting, without=given.without.split(",")).torment()
        except Exception as error:  # such as a server that does not start: the next one may
            result = Result(setting, [f"the run could not be finished: {type(error).__name__}: {error}"])
        results.append(result)
        tell(result, quiet=given.seeds != 1)
    print("\n" + summary(results, time.monotonic() - begun))
    return any(result.problems for result in results)


def arguments() -> argparse.Namespace:
    """The command line."""
    kinds = ", ".join(name for name, _ in script.KINDS)
    parser = argparse.ArgumentParser(prog="torment", description="Torments a server, and looks whether it minds.")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default: 1)")
    parser.add_argument("--seeds", type=int, default=0, help="so many seeds (default: one, or as --seconds allows)")
    parser.add_argument("--seconds", type=float, default=0, help="begin no run after so many seconds")
    parser.add_argument("--driver", choices=DRIVERS, help="only this one (default: all, in turn)")
    parser.add_argument("--streamed", action="store_true", help="with --driver: --no-request-buffering")
    parser.add_argument(
        "--run-seconds", type=float, default=4, help="connections of a run begin during so many seconds"
    )
    parser.add_argument("--rate", type=int, default=70, help="so many in each second")
    parser.add_argument("--at-a-time", type=int, default=0, help="so many at the same time (default: no bound)")
    parser.add_argument("--without", default="", metavar="KINDS", help=f"leave out kinds of clients: {kinds}")
    given = parser.parse_args()
    if not given.seeds and not given.seconds:
        given.seeds = 1
    return given


def settings(given: argparse.Namespace) -> Iterator[Setting]:
    """What is tormented, one after the other."""
    seeds = itertools.count(given.seed) if not given.seeds else range(given.seed, given.seed + given.seeds)
    for seed in seeds:
        driver, streamed = SETTINGS[seed % len(SETTINGS)]
        if given.driver:
            driver, streamed = given.driver, given.streamed
        yield Setting(seed, driver, streamed, given.run_seconds, given.rate, given.at_a_time)


def show(given: argparse.Namespace, results: list[Result], setting: Setting, spent: float) -> None:
    """How far it is, where a person looks on."""
    if not sys.stderr.isatty():
        return
    share = max(len(results) / given.seeds if given.seeds else 0, spent / given.seconds if given.seconds else 0)
    bar = "#" * int(share * 30)
    bad = sum(bool(result.problems) for result in results)
    streamed = ", streamed" if setting.streamed else ""
    sys.stderr.write(
        f"\r[{bar:30}] {len(results)} runs, {bad} of them bad, {spent:.0f} s; now seed {setting.seed} ({setting.driver}"
        f"{streamed})\x1b[K"
    )
    sys.stderr.flush()


def tell(result: Result, *, quiet: bool) -> None:
    """A run that went wrong; every run, where it is the only one or nobody looks on."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    setting = result.setting
    if result.problems:
        print(f"seed {setting.seed}: {len(result.problems)} problems; again with\n  {setting.again}")
        for problem in result.problems:
            print(f"  - {problem}")
    elif not quiet or not sys.stderr.isatty():
        print(f"seed {setting.seed} ({setting.driver}{', streamed' if setting.streamed else ''}): {line(result)}")
    sys.stdout.flush()


def line(result: Result) -> str:
    """A run in one line."""
    worst = max(result.waits, default=0) * 1000
    p99 = percentile(result.waits, 0.99) * 1000 if result.waits else 0
    return (
        f"{result.connections} connections ({result.most} at a time), {result.whole} replies whole, {result.cut} cut, "
        f"{result.kills} kills, {result.reloads} reloads, {result.forks} forks; "
        f"bystander p99 {p99:.1f}, worst {worst:.1f} ms; "
        f"RSS {rss(result.before)} → {rss(result.after)}, at most {result.peak_kib // 1024} MiB"
    )


def rss(held: Sequence[Holding]) -> str:
    """The largest worker's memory."""
    return f"{max((one.rss_kib for one in held), default=0) // 1024} MiB"


def summary(results: list[Result], spent: float) -> str:
    """All runs together."""
    waits = [wait for result in results for wait in result.waits]
    total = {
        name: sum(getattr(result, name) for result in results)
        for name in ("connections", "requests", "whole", "refused", "cut", "kills", "reloads", "forks")
    }
    bad = [result.setting.seed for result in results if result.problems]
    grown = [max(one.rss_kib for one in result.after) - max(one.rss_kib for one in result.before)
             for result in results if result.before and result.after]  # fmt: skip
    lines = [
        f"{len(results)} runs in {spent:.0f} s, {len(bad)} of them bad{': seeds ' + str(bad) if bad else ''}",
        "  " + ", ".join(f"{number} {name}" for name, number in total.items()),
        f"  bystander: {len(waits)} requests"
        + "".join(f", {name} {percentile(waits, part) * 1000:.1f} ms"
                  for name, part in (("median", 0.5), ("p99", 0.99), ("worst", 1.0)) if waits),
        f"  RSS of the largest worker: at most {max((result.peak_kib for result in results), default=0) // 1024} MiB, "
        f"after a run {max(grown, default=0) / 1024:+.1f} MiB at most beside the warm-up",
    ]  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
