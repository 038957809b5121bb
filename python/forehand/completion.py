"""Completion scripts for shells, from the grammars of the command line.

Knows: three shells' ways to say the same. Does not know: what an option does.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    #: Flag, words, choices, and how many values it takes: `0`, `1`, or `?` for one that may be left out.
    Flags = list[tuple[str, str, list[str], str]]


class Command:
    """A first word that is no target: what it does, its flags, and what else may follow: these words, or files."""

    __slots__ = ("files", "flags", "help", "words")

    def __init__(self, help: str, flags: Flags, words: tuple[str, ...] = (), *, files: bool = False) -> None:
        self.help = help
        self.flags = flags
        self.words = words
        self.files = files


def flags_of(grammar: argparse.ArgumentParser, choices: Mapping[str, list[str]] | None = None) -> Flags:
    """The flags of a grammar. `choices`: values that an option may have, by its name, which the grammar leaves open."""
    import argparse

    return [
        (
            flag,
            (action.help or "").partition(" (default")[0].replace("%%", "%"),
            [str(choice) for choice in action.choices or (choices or {}).get(action.dest, [])],
            str(1 if action.nargs is None else action.nargs),
        )
        for action in grammar._actions
        if action.help != argparse.SUPPRESS
        for flag in action.option_strings
    ]


def script(shell: str, flags: Flags, commands: Mapping[str, Command]) -> str:
    """A script for bash, zsh or fish. `flags`: the server's own; `commands`: the words in place of a target."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](flags, commands)


def _bash(flags: Flags, commands: Mapping[str, Command]) -> str:
    branches = "".join(_bash_branch(name, command) for name, command in commands.items())
    return (
        "_forehand() {\n"
        '  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" first="" flags words files\n'
        '  if [[ "$COMP_CWORD" -gt 1 ]]; then first="${COMP_WORDS[1]}"; fi\n'
        f'  case "$first" in\n{branches}{_bash_branch("*", Command("", flags, files=True))}  esac\n'
        f'  if [[ "$COMP_CWORD" == 1 ]]; then words="{" ".join(commands)}"; fi\n'
        '  if [[ "$current" == -* ]]; then\n'
        '    COMPREPLY=($(compgen -W "$flags $words" -- "$current"))\n'
        "  else\n"
        '    COMPREPLY=($(compgen -W "$words" -- "$current") $([[ -z "$files" ]] || compgen -f -- "$current"))\n'
        "  fi\n"
        "}\n"
        "complete -F _forehand forehand\n"
    )


def _bash_branch(name: str, command: Command) -> str:
    """What is known behind one first word: values of flags at once, the rest in variables."""
    values = "".join(
        f'        {flag}) COMPREPLY=($(compgen -W "{" ".join(choices)}" -- "$current")); return;;\n'
        for flag, _, choices, _ in command.flags
        if choices
    )
    others = [flag for flag, _, choices, count in command.flags if count == "1" and not choices]
    if others:
        values += f'        {"|".join(others)}) COMPREPLY=($(compgen -f -- "$current")); return;;\n'
    return (
        f'    {name})\n      case "$before" in\n{values}      esac\n'
        f'      flags="{" ".join(flag for flag, _, _, _ in command.flags)}" words="{" ".join(command.words)}"'
        f" files={'yes' if command.files else ''};;\n"
    )


def _zsh(flags: Flags, commands: Mapping[str, Command]) -> str:
    branches = "".join(
        f"    {name})\n      shift words; (( CURRENT-- ))\n      _arguments \\\n{_zsh_flags(command.flags)}"
        f"{_zsh_rest(command)}      return;;\n"
        for name, command in commands.items()
    )
    # It may be a file `_forehand` in a folder of `fpath`, or be read by `source <(...)`.
    return (
        "#compdef forehand\n_forehand() {\n"
        f'  (( CURRENT > 2 )) && case "$words[2]" in\n{branches}  esac\n'
        "  _arguments \\\n" + _zsh_flags(flags) + _zsh_first(commands) + "  '*:file:_files'\n}\n"
        'if [[ "$funcstack[1]" == _forehand ]]; then _forehand "$@"; else compdef _forehand forehand; fi\n'
    )


def _zsh_flags(flags: Flags) -> str:
    def quoted(text: str) -> str:
        return text.replace("'", "'\\''").replace("[", "(").replace("]", ")").replace(":", " ")

    lines = []
    for flag, words, choices, count in flags:
        # Where nothing is said of a value, what follows would be completed as if it were the target.
        colons = {"0": "", "?": "::"}.get(count, ":")
        values = f"{colons}value:{'(' + ' '.join(choices) + ')' if choices else '_files'}" if colons else ""
        lines.append(f"  '{flag}[{quoted(words)}]{values}' \\\n")
    return "".join(lines)


def _zsh_first(commands: Mapping[str, Command]) -> str:
    """The first word: an order, or a module's file. The space before the function keeps `_arguments` from giving it
    options of `compadd`, which it has not."""
    return f'  \'1:order or module: _alternative "orders:order:({" ".join(commands)})" "files:module:_files"\' \\\n'


def _zsh_rest(command: Command) -> str:
    """What may follow an order beside its flags."""
    words = f"({' '.join(command.words)})"
    both = f' _alternative "words:word:{words}" "files:file:_files"'
    rest = words if not command.files else both if command.words else "_files"
    return f"  '*:word:{rest}'\n"


def _fish(flags: Flags, commands: Mapping[str, Command]) -> str:
    names = " ".join(commands)
    lines = [
        "function __forehand_serves\n"
        "  set -l words (commandline -opc)\n"
        f'  not contains -- "$words[2]" {names}\n'
        "end\n"
        "function __forehand_order\n"
        "  set -l words (commandline -opc)\n"
        '  test "$words[2]" = "$argv[1]"\n'
        "end\n"
    ]
    for name, command in commands.items():
        lines.append(f"complete -c forehand -n __fish_use_subcommand -a {name} -d '{_fish_text(command.help)}'\n")
        where = f" -n '__forehand_order {name}'"
        if not command.files:
            lines.append(f"complete -c forehand{where} -f\n")
        if command.words:
            lines.append(f"complete -c forehand{where} -a '{' '.join(command.words)}'\n")
        lines += _fish_flags(command.flags, where)
    return "".join(lines + _fish_flags(flags, " -n __forehand_serves"))


def _fish_flags(flags: Flags, where: str) -> list[str]:
    lines = []
    for flag, words, choices, count in flags:
        name = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
        values = f" -x -a '{' '.join(choices)}'" if choices else " -r" if count == "1" else ""
        lines.append(f"complete -c forehand {name}{where} -d '{_fish_text(words)}'{values}\n")
    return lines


def _fish_text(words: str) -> str:
    return words.replace("\\", "").replace("'", "\\'")
