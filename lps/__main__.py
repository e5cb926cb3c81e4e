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

_PRIVATE = 0o077  # umask: only the owner may read the files of runs


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. Invalid input prints one line to stderr and returns 2."""
    words = sys.argv[1:] if arguments is None else arguments
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        from lps.cli import completion

        completion.answer()
    options = parser(words[0] if words else "").parse_args(words)
    before = os.umask(0)
    os.umask(before if options.has_shared_output else _PRIVATE)
    try:
        with _leaving_in_order() if options.has_shared_output else nullcontext():
            return options.act(options) or 0
    except UserError as error:
        print(f"lps: {one_line(str(error))}", file=sys.stderr)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader, such as `head`, closed the pipe
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
    """Let SIGTERM end the command like Ctrl-C, so that incomplete files are removed; exit with 128 + its number."""
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
