"""The command line, `lps COMMAND` or `python -m lps COMMAND`; the commands are in `lps.cli._parser`."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from lps.cli._parser import one_line, parser
from lps.errors import UserError, shown
from lps.files.atomic import disk_error_in_words

_PRIVATE = 0o077  # whatever belongs to runs is its owner's alone


def main(arguments: list[str] | None = None) -> int:
    """Carry out one command; returns its exit code. What a person got wrong is one line on stderr and code 2."""
    words = sys.argv[1:] if arguments is None else arguments
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may follow
        from lps.cli import completion

        completion.answer()
    options = parser(words[0] if words else "").parse_args(words)
    before = os.umask(0)
    os.umask(before if options.is_taken_away else _PRIVATE)
    try:
        with _leaving_in_order() if options.is_taken_away else nullcontext():
            return options.act(options) or 0
    except UserError as error:
        print(f"lps: {one_line(str(error))}", file=sys.stderr)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader, `head` for one, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        where = shown(error.filename or "the system")
        print(f"lps: {one_line(f'{where}: {disk_error_in_words(error)}')}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        os.umask(before)


@contextmanager
def _leaving_in_order() -> Iterator[None]:
    """A SIGTERM ends the command as Ctrl-C does: what was half made is removed; the exit code is the one of a shell."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
