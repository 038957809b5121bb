"""Completion scripts for shells, from the command line's grammar.

Knows: three shells' ways to say the same. Does not know: what an option does.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def script(shell: str, grammar: argparse.ArgumentParser) -> str:
    """A script for bash, zsh or fish."""
    flags = [
        (flag, (action.help or "").partition(" (default")[0].replace("%%", "%"), list(action.choices or []))
        for action in grammar._actions
        for flag in action.option_strings
    ]
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](flags)


def _bash(flags: list[tuple[str, str, list[str]]]) -> str:
    words = " ".join(flag for flag, _, _ in flags)
    cases = "".join(
        f'    {flag}) COMPREPLY=($(compgen -W "{" ".join(choices)}" -- "$current")); return;;\n'
        for flag, _, choices in flags
        if choices
    )
    return (
        "_forehand() {\n"
        '  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"\n'
        f'  case "$before" in\n{cases}  esac\n'
        '  if [[ "$current" == -* ]]; then\n'
        f'    COMPREPLY=($(compgen -W "{words}" -- "$current"))\n'
        "  else\n"
        '    COMPREPLY=($(compgen -f -- "$current"))\n'
        "  fi\n"
        "}\n"
        "complete -F _forehand forehand\n"
    )


def _zsh(flags: list[tuple[str, str, list[str]]]) -> str:
    def quoted(text: str) -> str:
        return text.replace("'", "").replace("[", "(").replace("]", ")").replace(":", " ")

    lines = []
    for flag, words, choices in flags:
        values = f":value:({' '.join(choices)})" if choices else ""
        lines.append(f"  '{flag}[{quoted(words)}]{values}' \\\n")
    return "#compdef forehand\n_arguments \\\n" + "".join(lines) + "  '*:module:_files'\n"


def _fish(flags: list[tuple[str, str, list[str]]]) -> str:
    lines = []
    for flag, words, choices in flags:
        name = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
        values = f" -x -a '{' '.join(choices)}'" if choices else ""
        words = words.replace("\\", "").replace("'", "")
        lines.append(f"complete -c forehand {name} -d '{words}'{values}\n")
    return "".join(lines)
