"""The report as one HTML file: views, scripts and raw data put together. Pure but for reading the template.

Nothing in the page asks the network. Under 3 MB, whatever the record: the raw data are what gives way, and the
page says so.
"""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from forehand_lab import HERE, answer, views
from forehand_lab.behaviour import ABILITIES
from markupsafe import Markup as markup

FOLDER = HERE / "report"
SCRIPTS = ("state.js", "lines.js", "charts.js", "sections.js")
MOST_BYTES = 3_000_000
# The views come first; raw data get what is left.
DIGITS = 5


def rounded(value: Any) -> Any:
    """Figures with five digits: what a measurement is worth, and a third of the bytes."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


def packed(facts: Sequence[Mapping[str, Any]]) -> str:
    """Facts as JSON lines, gzip, base64."""
    text = "\n".join(json.dumps(fact, separators=(",", ":")) for fact in facts) + "\n"
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def without_seconds(facts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The record without the histograms of single seconds: a tenth of its size, and every total still in it."""
    slim = []
    for fact in facts:
        if fact["kind"] == "point":
            series = [{key: value for key, value in row.items() if key != "times"} for row in fact["result"]["series"]]
            beside = [{**each, "series": []} for each in fact["beside"]]
            fact = {**fact, "result": {**fact["result"], "series": series}, "beside": beside}
        slim.append(dict(fact))
    return slim


def inlined(text: str) -> str:
    """Text that may stand in a script element: no end tag begins in it."""
    return text.replace("</", "<\\/")


def built(records: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The page of some records, by name."""
    drawn = [
        {"id": name, **rounded({**views.whole(facts), "answer": answer.of(facts), "abilities": ABILITIES})}
        for name, facts in records.items()
    ]
    room = MOST_BYTES - 250_000 - len(json.dumps(drawn, separators=(",", ":")))
    raws = []
    for each, facts in zip(drawn, records.values(), strict=True):
        share = room // len(drawn)
        whole = packed(facts)
        each["raw_note"] = "The whole record, as JSON lines, and the figures that this page draws."
        if len(whole) > share:
            whole = packed(without_seconds(facts))
            each["raw_note"] = (
                "The record without its single seconds, which would not fit here; the record's folder has all."
            )
        if len(whole) > share:
            whole = ""
            each["raw_note"] = (
                "The record is too large for this page: its folder has it. Here are the figures that are drawn."
            )
        raws.append((each["id"], whole))
    titles = [str(each["manifest"]["title"]) for each in drawn]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((FOLDER / "page.html").read_text())
    read = {name: (FOLDER / name).read_text() for name in (*SCRIPTS, "page.css")}
    made = max(float(facts[-1]["at"]) for facts in records.values())
    return template.render(
        heading=f"The lab: {titles[0]}" if len(titles) == 1 else f"The lab: {len(titles)} scenarios",
        made=f"measured {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime(made))}",
        css=markup(read["page.css"]),
        uplot_css=markup((FOLDER / "vendor/uPlot.min.css").read_text()),
        uplot_js=markup(inlined((FOLDER / "vendor/uPlot.iife.min.js").read_text())),
        scripts=[markup(read[name]) for name in SCRIPTS],
        data=markup(inlined(json.dumps(drawn, separators=(",", ":")))),
        raws=raws,
    )
