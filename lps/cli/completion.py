"""Complete words after `lps` on the Tab key: `completion`. argcomplete reads the parser; values are found here."""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from lps.cli._parser import Commands, Parser, command_files, parser
from lps.errors import UserError
from lps.settings import catalog
from lps.settings.config import protocol_parameters
from lps.settings.parameters import Parameter
from lps.store.run_folders import RECORDED

_HELP = (
    "print a script that makes the Tab key complete commands, settings and runs; "
    'bash and zsh: eval "$(lps completion bash)", fish: lps completion fish | source'
)


def add(commands: Commands) -> None:
    commands.add("completion", _print, _HELP).add_argument("shell", choices=("bash", "zsh", "fish"))


def _print(options) -> None:
    try:
        from argcomplete import shellcode
    except ImportError:
        raise UserError("completion", "needs argcomplete, which is not installed: pip install argcomplete") from None
    print(shellcode(["lps"], True, options.shell))


def answer() -> None:
    """Print the completions at the cursor for the shell that asks through the environment, and end the process."""
    import argcomplete

    before = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = before.split()
    at_command = len(words) < 2 or (len(words) == 2 and not before[-1].isspace())
    top = _names_only() if at_command else parser(words[1])
    _attach_finders(top)
    argcomplete.autocomplete(top, always_complete_options="long")


def _names_only() -> Parser:
    """Return a parser of all commands without options, so that no command's module is imported."""
    top = Parser(prog="lps")
    top.add_argument("--version", action="version", version="")
    commands = Commands(top)
    for name in command_files():
        commands.parsers.add_parser(name)
    return top


def _attach_finders(top: argparse.ArgumentParser) -> None:
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in set(action.choices.values()):
                _attach_finders(sub)
        elif action.choices is None and (find := _FINDERS.get((bool(action.option_strings), action.dest))):
            action.completer = find


def _run_ids(prefix: str, parsed_args: argparse.Namespace, **_) -> Iterable[str]:
    """Yield the names of the runs and of the included recordings."""
    for folder in (Path(parsed_args.runs), RECORDED):
        if folder.is_dir():
            yield from (entry.name for entry in os.scandir(folder) if entry.is_dir() and entry.name[0] != ".")


def _settings(prefix: str, parsed_args: argparse.Namespace, **_) -> list[str]:
    """Return `NAME=` for every setting, or after the sign the choices of that setting."""
    parameters = _parameters(getattr(parsed_args, "method", None))
    name, sign, _ = prefix.partition("=")
    if not sign:
        return [f"{parameter_name}=" for parameter_name in parameters]
    choices = _choices(parameters[name]) if name in parameters else ()
    return [f"{name}={choice}" for choice in choices]


def _parameters(methods: str | None) -> dict[str, Parameter]:
    """Return the shared settings and those of the comma-separated methods, of all methods if none is named."""
    named = [name for name in (methods or "").split(",") if name in catalog.method_names()]
    parameters = dict(protocol_parameters())
    for name in named or catalog.method_names():
        parameters |= catalog.method_info(name).parameters
    return parameters


def _choices(parameter: Parameter) -> Iterable[str]:
    return ("true", "false") if parameter.kind == "bool" else parameter.choices or ()


def _methods(**_) -> list[str]:
    return catalog.method_names()


def _datasets(**_) -> list[str]:
    return catalog.dataset_names()


# (whether it is an option, name of its value) -> function that finds the values
_FINDERS = {
    (False, "run"): _run_ids,
    (False, "ids"): _run_ids,
    (False, "first"): _run_ids,
    (False, "second"): _run_ids,
    (False, "method"): _methods,
    (True, "method"): _methods,
    (True, "dataset"): _datasets,
    (True, "fetch"): _datasets,
    (True, "settings"): _settings,
    (True, "space"): _settings,
    (True, "vary"): _settings,
}
