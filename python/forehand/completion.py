"""Completion scripts for shells, from the command line's grammar.

Knows: three shells' ways to say the same. Does not know: what an option does.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    #: Flag, words, choices, and how many values it takes: `0`, `1`, or `?` for one that may be left out.
    Flags = list[tuple[str, str, list[str], str]]


def script(
    shell: str, grammar: argparse.ArgumentParser, orders: Mapping[str, str], choices: Mapping[str, list[str]]
) -> str:
    """A script for bash, zsh or fish. `orders`: the first words that are no target, and what each does; `choices`:
    the values that an option may have, by its name."""
    import argparse

    flags = [
        (
            flag,
            (action.help or "").partition(" (default")[0].replace("%%", "%"),
            list(action.choices or choices.get(action.dest, [])),
            str(1 if action.nargs is None else action.nargs),
        )
        for action in grammar._actions
        if action.help != argparse.SUPPRESS
        for flag in action.option_strings
    ]
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](flags, orders)


def _bash(flags: Flags, orders: Mapping[str, str]) -> str:
    words = " ".join(flag for flag, _, _, _ in flags)
    cases = "".join(
        f'    {flag}) COMPREPLY=($(compgen -W "{" ".join(choices)}" -- "$current")); return;;\n'
        for flag, _, choices, _ in flags
        if choices
    )
    return (
        "_forehand() {\n"
        '  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"\n'
        f'  case "$before" in\n{cases}  esac\n'
        '  if [[ "$current" == -* ]]; then\n'
        f'    COMPREPLY=($(compgen -W "{words}" -- "$current"))\n'
        '  elif [[ "$COMP_CWORD" == 1 ]]; then\n'
        f'    COMPREPLY=($(compgen -W "{" ".join(orders)}" -- "$current") $(compgen -f -- "$current"))\n'
        "  else\n"
        '    COMPREPLY=($(compgen -f -- "$current"))\n'
        "  fi\n"
        "}\n"
        "complete -F _forehand forehand\n"
    )


def _zsh(flags: Flags, orders: Mapping[str, str]) -> str:
    def quoted(text: str) -> str:
        return text.replace("'", "").replace("[", "(").replace("]", ")").replace(":", " ")

    lines = []
    for flag, words, choices, count in flags:
        # Where nothing is said of a value, what follows would be completed as if it were the target.
        colons = {"0": "", "?": "::"}.get(count, ":")
        values = f"{colons}value:{'(' + ' '.join(choices) + ')' if choices else '_files'}" if colons else ""
        lines.append(f"  '{flag}[{quoted(words)}]{values}' \\\n")
    return "#compdef forehand\n_arguments \\\n" + "".join(lines) + _zsh_first(orders) + "  '*:file:_files'\n"


def _zsh_first(orders: Mapping[str, str]) -> str:
    """The first word: an order, or a module's file. The space before the function keeps `_arguments` from giving it
    options of `compadd`, which it has not."""
    return f'  \'1:order or module: _alternative "orders:order:({" ".join(orders)})" "files:module:_files"\' \\\n'


def _fish(flags: Flags, orders: Mapping[str, str]) -> str:
    lines = [
        f"complete -c forehand -n __fish_use_subcommand -a {order} -d '{words.replace(chr(39), '')}'\n"
        for order, words in orders.items()
    ]
    for flag, words, choices, count in flags:
        name = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
        values = f" -x -a '{' '.join(choices)}'" if choices else " -r" if count == "1" else ""
        words = words.replace("\\", "").replace("'", "")
        lines.append(f"complete -c forehand {name} -d '{words}'{values}\n")
    return "".join(lines)
