"""The words that stand in place of a target on the command line: `forehand status`, `forehand migrate`.

Knows: their names, and what somebody may have meant who has typed another. Does not know: what they do.
"""

from __future__ import annotations

#: Commands for a running server (`supervisor/client.py`).
COMMANDS = (
    "status", "top", "requests", "profile", "heap", "reload", "upgrade", "stop", "workers", "stacks", "tls", "reopen",
)  # fmt: skip
#: Subcommands that concern no running server.
OTHER_COMMANDS = {
    "migrate": "translate another server's configuration into a forehand.toml",
    "lab": "measure servers",
}
#: What other servers have between their name and the application.
OTHERS_VERBS = ("run", "serve", "start", "dev", "runserver")
#: What others call what is called otherwise here.
OTHERS_WORDS = {
    "help": "--help", "version": "--version", "restart": "reload", "kill": "stop", "quit": "stop", "shutdown": "stop",
    "ps": "status", "info": "status", "list": "status", "scale": "workers", "init": "migrate",
}  # fmt: skip


def meant(word: str) -> str:
    """A sentence for a word that is neither a command nor a module; empty: it resembles no command."""
    import difflib

    if word in OTHERS_VERBS:
        return f"; the application alone is enough, without '{word}': forehand shop.wsgi"
    if word in OTHERS_WORDS:
        return f"; did you mean 'forehand {OTHERS_WORDS[word]}'?"
    found = difflib.get_close_matches(word, [*COMMANDS, *OTHER_COMMANDS], n=1, cutoff=0.7)
    return f"; did you mean the command 'forehand {found[0]}'?" if found else ""
