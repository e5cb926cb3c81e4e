"""Parse the command line and provide what commands share; each file in this folder adds its commands by
`add(commands)`.

The folder listing is the registry: a new file adds its commands. `add` names them, their options and the function that
runs each. That function returns its exit code, or None for 0, and may raise `UserError`. It imports what it needs
itself: the Tab key loads a command's file at every press, and imports at the top would double its time.
"""

import argparse
import functools
import json
import re
import sys
import unicodedata
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from lps import __version__, cli
from lps.cluster import executors
from lps.cluster.job_options import Options
from lps.errors import UserError, shorten, shown
from lps.files.atomic import clean_line
from lps.files.user_folders import runs_folder
from lps.machine import processes
from lps.settings.parameters import Parameter
from lps.store.runs import Run

_MAX_WORDS = 2000  # characters of an error; our longest one lists all settings of a method
_LONGEST_WORD = 240  # characters; longer words in an error are nonsense that the user typed
_COMMAND = re.compile(r'commands\.add\(\s*"([\w-]+)"')
_QUOTED = re.compile(r"""'[^']{200,}'|"[^"]{200,}\"""")  # long values, which argparse quotes in full
_NO_TEXT = ("Cc", "Cs", "Zl", "Zp")  # Unicode categories that control a terminal, end a line or are no character
LIGHT = (  # help text of --light
    "train in minutes without a GPU. For your own colour pictures, this uses stored features of a built-in network. "
    "For all other pictures, and if you add --set features=live, it uses smaller pictures and a smaller network"
)
_LARGEST = 2**63  # largest whole number that an option takes


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors in one line and reads numbers and paths strictly."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        for kind, read_value in ((int, _whole_number), (float, _number), (Path, _path)):
            self.register("type", kind, read_value)

    def error(self, message):
        self.exit(2, f"{self.prog}: {one_line(message)}\n")

    def parse_args(self, args=None, namespace=None):
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error("unrecognized arguments: " + " ".join(shown(word) for word in unknown))
        return options

    def parse_known_args(self, args=None, namespace=None):
        """Also accept positional words behind an option: argparse ends a list such as NAMES at the first option."""
        options, unknown = super().parse_known_args(args, namespace)
        for action in self._get_positional_actions()[-1:]:
            words = [word for word in unknown if not word.startswith("-")]
            if words and action.nargs in ("*", "+"):
                unknown = [word for word in unknown if word.startswith("-")]
                setattr(options, action.dest, [*getattr(options, action.dest), *self._get_values(action, words)])
        return options, unknown

    def _get_values(self, action, arg_strings):
        """Accept `--option=--` as a value; argparse of Python 3.11 takes it for the end of the options."""
        if action.option_strings and action.nargs is None:
            value = self._get_value(action, arg_strings[0])
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            commands = [choice.dest for choice in getattr(action, "_choices_actions", [])]  # commands with a help text
            choices = ", ".join(map(repr, commands or action.choices))
            raise argparse.ArgumentError(action, f"invalid choice: {shorten(value)} (choose from {choices})")


def one_line(message: str) -> str:
    """Return an error as one printable line of limited length, whatever it quotes."""
    message = _QUOTED.sub(lambda match: shorten(match[0][1:-1]), message)
    words = clean_line(message, _MAX_WORDS).split(" ")
    return " ".join(word if len(word) <= _LONGEST_WORD else f"{word[: _LONGEST_WORD - 1]}…" for word in words)


def _whole_number(text: str) -> int:
    """Read a whole number; Python's `int` would also accept underscores and the digits of every script."""
    return any_whole(text, _LARGEST)


def any_whole(text: str, most: int | None = None) -> int:
    """Read a whole number of any size, for commands that check the range themselves and explain it better."""
    try:
        return Parameter("", "int", 0, "", most and -most, most).parse(text)
    except UserError:
        raise argparse.ArgumentTypeError(f"{shorten(text)} is not a whole number") from None


def _number(text: str) -> float:
    try:
        return Parameter("", "float", 0.0, "").parse(text)
    except UserError:
        raise argparse.ArgumentTypeError(f"{shorten(text)} is not a number") from None


def _path(text: str) -> Path:
    if not text or any(unicodedata.category(letter) in _NO_TEXT for letter in text):
        raise argparse.ArgumentTypeError(f"{shorten(text)} is not a path; expected printable characters")
    return Path(text)


class Commands:
    """The commands of a parser."""

    def __init__(self, top: Parser):
        self.parsers = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)

    def add(
        self, name: str, act: Callable, help: str, *, run: bool = False, as_json: bool = False, has_shared_output=False
    ) -> Parser:
        """Add a command and its common options: --runs always, RUN and --json on request.

        has_shared_output: its output is for other places and follows the user's umask; other files are private to their
        owner.
        """
        sub = self.parsers.add_parser(name, help=help, description=help, allow_abbrev=False)
        sub.set_defaults(act=act, has_shared_output=has_shared_output)
        sub.add_argument("--runs", type=Path, default=str(runs_folder()), help="folder of the runs")
        if run:
            sub.add_argument("run", help="id of a run, the end of the id, or its folder")
        if as_json:
            sub.add_argument("--json", action="store_true", help="print JSON")
        return sub


def parser(command: str = "") -> Parser:
    """Return the parser of all commands, or only of `command` if it exists, so that nothing else is imported."""
    program = "lps" if Path(sys.argv[0]).name == "lps" else "python -m lps"
    top = Parser(prog=program, description="Open-world semi-supervised learning on the command line.")
    top.add_argument("--version", action="version", version=f"lps {__version__}")
    commands = Commands(top)
    files = command_files()
    for name in [files[command]] if command in files else sorted(set(files.values())):
        import_module(f"{cli.__name__}.{name}").add(commands)
    return top


@functools.cache
def command_files() -> dict[str, str]:
    """Map every command to its module's name, read from the source, which is faster than importing the modules."""
    module_by_command = {}
    for path in sorted(Path(cli.__file__).parent.glob("[!_]*.py")):
        module_by_command |= dict.fromkeys(_COMMAND.findall(path.read_text(encoding="utf-8")), path.stem)
    return module_by_command


def add_filter(sub: argparse.ArgumentParser) -> None:
    """Add the option whose text `filter_runs` takes."""
    help_text = (
        "only matching runs, such as 'lr>0.05 and method=lps', 'name~abl.*', 'not tag=old', 'novel>=80', "
        "'state=failed', or the name of a run as tables show it"
    )
    sub.add_argument("--filter", default="", help=help_text)


def filter_runs(runs: list[Run], text: str) -> list[Run]:
    """Return the runs that match a filter, all without one; raises `UserError`."""
    if not text.strip():
        return runs
    from lps.analysis import run_index
    from lps.tables import run_filter

    return [entry.run for entry in run_filter.select_runs(run_index.read_rows(runs), text)]


def add_task(sub: argparse.ArgumentParser) -> None:
    """Add the options for data set and method."""
    sub.add_argument("--dataset", default="digits", help="see `datasets`")
    sub.add_argument("--method", default="lps", help="see `methods`")


def add_settings(sub: argparse.ArgumentParser, help: str = "for all runs") -> None:
    """Add the option for all settings without an own option; `settings` has its texts."""
    sub.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings", help=help)


def add_sharing(sub: argparse.ArgumentParser, with_what: str) -> None:
    """Add the options that let several processes share the work. with_what: what the processes have in common."""
    sub.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help=f"number of processes on this machine, 1 to {processes.MAX_WORKERS}",
    )
    help_text = f"share the work with other processes that run this command {with_what}"
    sub.add_argument("--join", action="store_true", help=help_text)


def add_place(sub: argparse.ArgumentParser) -> None:
    """Add the options that say where runs are carried out; `target_options` reads them."""
    sub.add_argument(
        "--on",
        choices=("here", *executors.EXECUTORS),
        default="here",
        help="where to run: this machine, or jobs on a cluster",
    )
    for name, backend in executors.EXECUTORS.items():
        help_text = "options of the jobs, may be repeated: " + ", ".join(backend.OPTIONS)
        sub.add_argument(f"--{name}", action="append", default=[], metavar="NAME=VALUE", help=help_text)


def target_options(options) -> Options | None:
    """Return the job options of an executor, None for this machine; raises `UserError`."""
    options_by_backend = {
        name: backend.read_options(getattr(options, name)) for name, backend in executors.EXECUTORS.items()
    }
    for name, backend_options in options_by_backend.items():
        if backend_options.given and name != options.on:
            raise UserError(name, f"its options cannot be used here; add --on {name}")
    if options.on == "here":
        return None
    executors.EXECUTORS[options.on].check(options_by_backend[options.on])
    return options_by_backend[options.on]


def print_json(value) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def print_note(text: str) -> None:
    """Print text that is no result to stderr, each line as far as it is printable."""
    print("\n".join(clean_line(line, _MAX_WORDS) for line in text.split("\n")), file=sys.stderr)
