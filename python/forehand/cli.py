"""The command `forehand`.

Knows: flags, help, and the order of things before a server runs. Does not know: how anything
is done. What a normal start does not need is imported where it is needed: a server answers its
first request a tenth of a second after it was started.
"""

from __future__ import annotations

import argparse
import io
import os
import sys

from forehand import __version__, descriptors, errors
from forehand.commands import COMMANDS, OTHER_COMMANDS, OTHERS_VERBS, OTHERS_WORDS
from forehand.digits import is_whole
from forehand.errors import Problem, near

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence, Set
    from typing import Any, NoReturn

    from forehand.option import Option

EPILOG = """\
Each option is also a variable (FOREHAND_THREADS) and a key of forehand.toml or of
[tool.forehand] in pyproject.toml (threads). The command line takes precedence, then
variables, then the file, then what platforms set (PORT, WEB_CONCURRENCY,
FORWARDED_ALLOW_IPS).
docs/settings.md has all of them with their reasons.

commands for a running server: forehand status | top | requests | profile | heap | stacks | reload | upgrade |
stop | workers | tls | reopen (each has --help).
Another server's configuration: forehand migrate FILE | 'COMMAND LINE'.
Measuring servers: forehand lab.

exit statuses: {}
"""


#: What files and other servers have as values of what is a switch here.
TRUE_OR_FALSE = ("true", "false", "yes", "no", "on", "off", "1", "0")
#: What a shell tells of a program that SIGPIPE has ended.
NOBODY_READS = 141


class Parser(argparse.ArgumentParser):
    """argparse with our exit status and the nearest option."""

    def error(self, message: str) -> NoReturn:
        raise Problem(errors.USAGE, message, hint="`forehand --help` and `forehand --help-all` list the options")


class OneName(argparse.Action):
    """Stores a value. An option may be given again, as in a script that adds to its own words what it was given; not
    under another of its names, which files and variables refuse, too."""

    said = ""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        name = option_string or ""
        if self.said and self.said != name:
            raise Problem(errors.USAGE, f"{self.said} and {name} are the same option: name one")
        self.said = name
        setattr(namespace, self.dest, values)


def parser(words: Set[str] | None = None) -> Parser:
    """The command line's grammar, from the table of options. With `words`, the options of those names only: of 180 a
    start names a few, and to add one takes 30 us."""
    from forehand.settings import GROUPS, OPTIONS

    statuses = "; ".join(f"{status} {meaning}" for status, meaning in errors.MEANINGS.items())
    made = Parser(
        prog="forehand",
        usage="forehand [options] MODULE[:ATTRIBUTE]",
        description="Serve a Python application: WSGI or ASGI, over HTTP/1.0, HTTP/1.1 and WebSockets.",
        epilog=EPILOG.format(statuses),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    # In a group, as argparse imports what it writes help with for what is in none.
    made.add_argument_group("positional arguments").add_argument(
        "target",
        nargs="?",
        metavar="MODULE[:ATTRIBUTE]",
        help="the application: shop.wsgi, shop.wsgi:application, 'shop:make()'",
    )
    general = made.add_argument_group("General")
    general.add_argument("-h", "--help", action="store_true", help="show the options that most people need, and end")
    general.add_argument("--help-all", action="store_true", help="show all options with their reasons, and end")
    general.add_argument("-V", "-v", "--version", action="store_true", help="show the version and end")
    general.add_argument("-c", "--config", metavar="FILE", help="read this TOML file instead of forehand.toml")
    general.add_argument("--check", "--check-config", action="store_true", help="load everything, bind nothing, end")
    general.add_argument("--print-config", action="store_true", help="show all settings and their sources, and end")
    general.add_argument("--completion", choices=("bash", "zsh", "fish"), help="print a completion script and end")
    general.add_argument("--ready-fd", type=int, metavar="N", help="write a JSON line there when requests are answered")
    # Between one process of ours and the next.
    general.add_argument("--print-plan", action="store_true", help=argparse.SUPPRESS)
    general.add_argument("--adopt", type=int, help=argparse.SUPPRESS)
    for title, description in GROUPS.items():
        group = made.add_argument_group(title, description)
        for option in OPTIONS.values():
            if option.group == title and (words is None or not words.isdisjoint(_flags(option))):
                _add(group, option)
    return made


def _flags(option: Option) -> tuple[str, ...]:
    """All that an option is called on the command line."""
    names = (option.flag, *option.aliases)
    if option.kind == "bool" or option.bare:
        return (*names, *(f"--no-{name[2:]}" for name in names if name.startswith("--")))
    return names


def _add(group: argparse._ArgumentGroup, option: Option) -> None:
    shown = ",".join(option.default) if option.kind == "list" else option.default
    words = option.help.replace("%", "%%")
    text = f"{words} (default: {shown if shown != '' else 'none'})"
    if option.kind == "bool":
        names = (option.flag, *option.aliases)
        group.add_argument(*names, dest=option.name, action=argparse.BooleanOptionalAction, help=text)
        return
    if option.bare:
        group.add_argument(f"--no-{option.flag[2:]}", dest=option.name, action="store_const", const=option.off,
                           help=argparse.SUPPRESS)  # fmt: skip
    bare: dict[str, Any] = {"nargs": "?", "const": option.bare} if option.bare else {}
    group.add_argument(
        option.flag,
        *option.aliases,
        dest=option.name,
        action="append" if option.kind == "list" else OneName,
        metavar=option.metavar,
        **bare,
        help=text + (f"; {', '.join(option.choices)}" if option.choices else ""),
    )


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """What was asked for, and the options that were given, judged. Raises Problem."""
    from forehand.settings import OPTIONS

    words = {word.partition("=")[0] for word in arguments if word[:1] == "-" and word != "-"}
    grammar = parser(words)
    if not words.issubset(grammar._option_string_actions):
        # A value that is glued to its flag, a value with a hyphen, or what is no option.
        grammar = parser()
    known, unknown = grammar.parse_known_args(arguments)
    if unknown:
        raise _unknown(unknown, grammar, known.target, arguments)
    given: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        value = getattr(known, name, None)
        if value is None:
            continue
        try:
            if option.bare and known.target is None and not _is_value(option, value):
                # The flag came without a value, and what followed it was the target.
                known.target, value = value, option.bare
            if option.kind == "list":
                # A variable's value may have commas; other lists are split at them.
                parts = value if name == "env" else [part for text in value for part in option.parse(text)]
                given[name] = option.validated(parts)
            else:
                given[name] = value if option.kind == "bool" else option.parse(value)
        except ValueError as error:
            from forehand.migrate import other_servers

            known_there = other_servers.choice(option, value, toml=False)
            raise Problem(errors.USAGE, known_there or f"{option.flag}: {error}", hint=option.help) from None
    return known, given


def _is_value(option: Option, text: str) -> bool:
    try:
        option.parse(text)
    except ValueError:
        return "%" in text
    return True


def _instead_of(word: str, grammar: Parser, target: str, arguments: list[str]) -> str:
    """What to do about a second word that is no option: what it was meant to be, as far as that can be seen."""
    if word in (*COMMANDS, *OTHER_COMMANDS):
        return f"a command stands in place of a target: forehand {word}"
    if target in OTHERS_VERBS:
        module = word[:-3].replace("/", ".") if word.endswith(".py") else word
        return f"the application alone is enough: forehand {module}{' --reload' if target == 'dev' else ''}"
    for value in (target, word):
        before = arguments[max(arguments.index(value) - 1, 0)] if value in arguments else ""
        action = grammar._option_string_actions.get(before)
        if action is not None and action.nargs == 0 and (value == word or value.lower() in TRUE_OR_FALSE):
            other = (
                f"; the opposite is --no-{before[2:]}" if f"--no-{before[2:]}" in grammar._option_string_actions else ""
            )
            return f"{before} takes no value: leave '{value}' out{other}"
    if is_whole(word):
        return f"a port is an option: --port {word}"
    if is_whole(word.rpartition(":")[2]):
        return f"an address is an option: --bind {word}"
    return f"leave '{word}' out; options begin with --, and `forehand --help` lists them"


def _unknown(words: list[str], grammar: Parser, target: str | None, arguments: Sequence[str]) -> Problem:
    """What to say of words that are no option of ours: the first of them."""
    from forehand.migrate import other_servers

    word, equals, value = words[0].partition("=")
    if not word.startswith("-"):
        what = f"there is one target, '{target}', and '{word}' is another word"
        return Problem(errors.USAGE, what, hint=_instead_of(word, grammar, target or "", list(arguments)))
    # What follows it may have been taken for the target: `--uds /run/shop.sock shop`.
    behind = list(arguments)[list(arguments).index(words[0]) + 1 :][:1]
    following = behind[0] if behind and not behind[0].startswith("-") else None
    known = other_servers.flag(word, value if equals else following)
    return Problem(
        errors.USAGE,
        known or f"there is no option {word}{near(word, list(grammar._option_string_actions))}",
        hint=f"did you mean 'forehand {OTHERS_WORDS[target]}'?"
        if target in OTHERS_WORDS
        else "`forehand --help` and `forehand --help-all` list the options",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; the exit status."""
    descriptors.fill_gaps()
    try:
        status = _main(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return status
    except Problem as problem:
        sys.stderr.write(problem.text() + "\n")
        return problem.status
    except BrokenPipeError:
        # Who read it has seen enough (`| head`); what is left is written at the end, and must find somebody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return NOBODY_READS
    except KeyboardInterrupt:
        return 130


def _main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["lab"]:
        return _lab(arguments[1:])
    if arguments and arguments[0] in COMMANDS:
        from forehand.supervisor import client

        if isinstance(sys.stdout, io.TextIOWrapper):
            # What a server tells may have characters that this terminal has not, such as a route's.
            sys.stdout.reconfigure(errors="backslashreplace")
        return client.main(arguments)
    if arguments[:1] == ["migrate"]:
        from forehand.migrate.command import main as migrate

        return migrate(arguments[1:])
    if len(arguments) > 2 and arguments[0] in ("-C", "--control") and arguments[2] in COMMANDS:
        first = f"forehand {arguments[2]} {arguments[0]} {arguments[1]}"
        raise Problem(errors.USAGE, f"the command stands first: {first}")
    asked, given = parse(arguments)
    if asked.help:
        from forehand.short_help import text

        print(text(), end="")
        return errors.OK
    if asked.help_all:
        parser().print_help()
        return errors.OK
    if asked.version:
        print(f"forehand {__version__} (Python {sys.version.split()[0]})")
        return errors.OK
    if asked.completion:
        print(_completion(asked.completion), end="")
        return errors.OK
    from forehand import toml
    from forehand.sources import as_toml, gather

    if asked.ready_fd is not None:
        _judge_descriptor(asked.ready_fd)
    command_line = {"folder": _here(), "arguments": _original_arguments(arguments)}
    settings = gather(given, asked.config, given.get("chdir") or ".")
    if asked.print_config:
        if asked.target:
            settings.put("application", asked.target, "command line")
        toml.write(as_toml(settings))
        return errors.OK
    plan = _plan(asked, settings, command_line)
    if asked.print_plan:
        import marshal

        os.write(1, b"PLAN\n" + marshal.dumps(plan))
        return errors.OK
    if getattr(sys, "orig_argv", [])[1:2] in (sys.argv[:1], ["-m"]) and not asked.check:
        _reexec(plan)
    from forehand import ending
    from forehand.launch import launch

    ending.process_ends = True
    return launch(plan)


def _here() -> str:
    """The current folder. Raises Problem where it was removed meanwhile, as by a deployment."""
    try:
        return os.getcwd()
    except OSError as error:
        raise Problem(
            errors.USAGE,
            f"the current folder is not there any more: {error.strerror}",
            hint='go to one that is, such as the new one of the same name: cd "$PWD"',
        ) from None


def _judge_descriptor(fd: int) -> None:
    try:
        os.fstat(fd)
    except (OSError, OverflowError):
        raise Problem(
            errors.USAGE,
            f"--ready-fd {fd}: this process has no descriptor of that number",
            hint="whoever starts it passes one on, such as a shell: forehand app --ready-fd 3 3>FILE",
        ) from None


def _completion(shell: str) -> str:
    """The script for a shell."""
    from forehand.completion import Command, flags_of, script
    from forehand.settings import OPTIONS
    from forehand.supervisor import client

    choices = {name: list(option.choices) for name, option in OPTIONS.items() if option.choices}
    commands = {
        order: Command(help, flags_of(client.grammar(order)), client.WORDS.get(order, ()))
        for order, help in client.ORDERS.items()
    }
    for name, help in OTHER_COMMANDS.items():
        commands[name] = Command(help, [("--help", "show this and end", [], "0")], _verbs(name), files=True)
    return script(shell, flags_of(parser(), choices), commands)


def _verbs(command: str) -> tuple[str, ...]:
    """The lab's verbs, where it is installed."""
    from importlib import import_module

    try:
        return tuple(import_module("forehand_lab.cli").VERBS) if command == "lab" else ()
    except ModuleNotFoundError:
        return ()


def _lab(arguments: Sequence[str]) -> int:
    """The lab is its own package, and this is all that the server knows of it."""
    from importlib import import_module

    try:
        lab = import_module("forehand_lab.cli")
    except ModuleNotFoundError:
        hint = "pip install 'PATH[lab]', where PATH is a clone of Forehand's repository"
        raise Problem(errors.USAGE, "the lab is not installed here", hint=hint) from None
    status: int = lab.main(arguments)
    return status


def _plan(asked: argparse.Namespace, settings: Any, command_line: dict[str, Any]) -> dict[str, Any]:
    """All that the process needs to know from here on. Raises Problem."""
    from forehand import contradictions, systemd_sockets
    from forehand.settings import FILE
    from forehand.supervisor import watch

    path = _surroundings(settings)
    contradiction = contradictions.find(settings, asked.target)
    if contradiction:
        raise Problem(errors.USAGE, contradiction)
    if settings.is_gevent():
        from forehand import greenlets

        greenlets.require(path)
    target = asked.target or settings["application"]
    if not target:
        from forehand.target_hints import suggestion

        raise Problem(
            errors.USAGE,
            "no application was named",
            hint=f'{suggestion()}\nor in forehand.toml: application = "MODULE:ATTRIBUTE"; `forehand --help` says more',
        )
    plan: dict[str, Any] = settings.plan()
    plan |= {"target": target, "factory": settings["factory"], "path": path, "check": asked.check}
    plan |= {"ready_fd": asked.ready_fd, "adopt": asked.adopt, "folder": os.getcwd(), "command_line": command_line}
    plan |= {"interface_name": "WSGI", "for_one_kind": contradictions.for_one_kind(settings)}
    plan["doubts"] += contradictions.doubts(settings, plan)
    # What was said of addresses stays beside them, for a reload to compare: systemd may have opened the sockets.
    plan["bind"] = plan["addresses"]
    opened = systemd_sockets.sockets()
    if opened and all(settings.ranks[name] < FILE for name in ("bind", "host", "port")):
        plan["addresses"] = opened
    elif opened:
        plan["addresses"], left = systemd_sockets.taken(plan["addresses"], opened)
        plan["doubts"] += [
            f"systemd listens at {place} for this service, and --bind names other addresses: who connects there waits "
            "for ever. Name it too, or leave --bind out, or the socket out of the unit"
            for place in left
        ]
    if plan["reload"]:
        watch.check()
    return plan


def _original_arguments(arguments: Sequence[str]) -> list[str]:
    """The command line as it was typed, without what one process of ours has told the next."""
    words, skip = [], False
    for word in arguments:
        if skip or word in ("--adopt", "--ready-fd"):
            skip = not skip
            continue
        if word != "--print-plan" and not word.startswith(("--adopt=", "--ready-fd=")):
            words.append(word)
    return words


def _reexec(plan: dict[str, Any]) -> NoReturn:
    """Go on in a fresh interpreter, in this process: what reading a command line needs, some
    three megabytes, is not to be held for as long as the server runs. An interpreter that was
    started with options of its own goes on as it is."""
    import marshal

    reader, writer = os.pipe()
    os.set_inheritable(reader, True)
    with os.fdopen(writer, "wb") as file:
        # A plan has a few kilobytes; a pipe takes 64 without anybody reading.
        marshal.dump(plan, file)
    for name in ("ready_fd", "adopt"):
        if plan[name] is not None:
            os.set_inheritable(plan[name], True)
    sys.stdout.flush()
    code = f"from forehand.reexec import main; main({reader})"
    try:
        os.execv(sys.executable, [sys.executable, "-c", code, *sys.argv])
    except OSError as error:
        raise Problem(
            errors.PERMISSION,
            f"the interpreter {sys.executable} cannot be executed: {error.strerror}",
            hint="this user needs an interpreter, and an environment, that it can read",
        ) from None


def _surroundings(settings: Any) -> list[str]:
    """Sets folder and variables as the application will find them; the module path for it."""
    for pair in settings["env"]:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise Problem(errors.USAGE, f"--env: '{pair}' is not NAME=VALUE")
        os.environ[name] = value
    # With `python -m forehand`, which a reload is, Python has put the folder of the start first: no script does.
    as_module = os.path.basename(sys.argv[0]) == "__main__.py" and sys.path[:1] == [os.getcwd()]
    path = sys.path[1:] if as_module else sys.path
    if settings["chdir"]:
        try:
            os.chdir(settings["chdir"])
        except OSError as error:
            raise Problem(errors.USAGE, f"--chdir: {settings['chdir']}: {error.strerror}") from None
    here = os.getcwd()
    # What the console script has put first is its own folder, which is nobody's project.
    scripts = os.path.dirname(os.path.abspath(sys.argv[0]))
    first = [os.path.abspath(part) for part in settings["pythonpath"].split(",") if part]
    return [*first, here, *(one for one in path if one not in ("", here, scripts))]
