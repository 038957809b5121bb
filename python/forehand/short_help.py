"""`forehand --help`: what most people need, on two screens.

Knows: which options have a brief word in the table, and how they are laid out. Does not know: what they do.
"""

from __future__ import annotations

from forehand.settings import GROUPS, OPTIONS

HEAD = """\
forehand [options] [MODULE[:ATTRIBUTE]]: serve a WSGI or ASGI application

  forehand shop.wsgi              Django: PROJECT.wsgi
  forehand app                    app.py with `app` or `application` in it
  forehand 'shop:create_app("x")' a factory and its arguments
  forehand                        what forehand.toml names: application = "app"

"""
GENERAL = (
    ("-c, --config FILE", "read this TOML file instead of forehand.toml"),
    ("--check", "load everything, bind nothing, end"),
    ("--print-config", "show all settings and where they come from"),
    ("-V, --version", "show the version"),
    ("--help-all", "all options, with defaults and reasons"),
)
FOOT = """\

Running: status top requests profile heap stacks workers reload upgrade stop
         reopen tls. Other servers: forehand migrate FILE, forehand lab
"""
COLUMN = 29


def text() -> str:
    """The whole of it, in lines of 80 columns at most."""
    lines = [HEAD]
    for group in GROUPS:
        rows = [option for option in OPTIONS.values() if option.group == group and option.brief]
        if rows:
            lines.append(f"{group}:\n")
        for option in rows:
            short = next((alias for alias in option.aliases if len(alias) == 2), "")
            name = ", ".join(filter(None, (short, option.flag)))
            metavar = "" if option.kind == "bool" else " " + option.metavar
            lines.append(_row(name + metavar, option.brief))
    lines.append("General:\n")
    lines += [_row(*row) for row in GENERAL]
    return "".join(lines) + FOOT


def _row(name: str, words: str) -> str:
    return f"  {name.ljust(COLUMN)} {words}\n"
