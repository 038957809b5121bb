"""The page that a browser gets in development when the application has failed: its traceback.

Knows: exceptions and HTML. Does not know: whether it may be shown (`bridge/failure.rs` asks). Runs on the thread whose
application has failed.
"""

from __future__ import annotations

import html
import traceback

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #222; background: #fff }}
h1 {{ font-size: 1.3rem; overflow-wrap: anywhere; color: #a40000 }}
pre {{ background: #f5f5f5; padding: 1rem; overflow-x: auto; font-size: .85rem }}
@media (prefers-color-scheme: dark) {{
  body {{ color: #ddd; background: #1b1b1b }} pre {{ background: #272727 }} h1 {{ color: #ff8080 }}
}}
</style></head><body>
<h1>{title}</h1>
<p>{what}</p>
<pre>{trace}</pre>
<p>This page is shown in development only: with --reload, or on a terminal to clients on the same machine.</p>
</body></html>
"""
#: Of an exception with a very long text or stack so much is shown.
MOST = 200_000


def page(what: str, error: BaseException) -> bytes:
    """The page. `what`: which request it was."""
    title = "".join(traceback.format_exception_only(type(error), error)).strip()
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    shown = [html.escape(text if len(text) <= MOST else text[:MOST] + " …") for text in (title, what, trace)]
    return PAGE.format(title=shown[0], what=shown[1], trace=shown[2]).encode(errors="backslashreplace")
