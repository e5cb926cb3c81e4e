"""The command line: `python -m lps COMMAND`; the commands are in `lps.commands`."""

import os
import sys

from lps.commands import parser
from lps.files import refusal
from lps.parameters import ConfigError

PRIVATE = 0o077  # whatever belongs to runs is its owner's alone


def main(arguments: list[str] | None = None) -> int:
    """Carry out one command; returns its exit code. What a person got wrong is one line on stderr and code 2."""
    options = parser().parse_args(arguments)
    before = os.umask(0)
    os.umask(before if options.is_taken_away else PRIVATE)
    try:
        return options.act(options) or 0
    except ConfigError as error:
        print(f"lps: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader, `head` for one, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        print(f"lps: {error.filename or 'the system'}: {refusal(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        os.umask(before)


if __name__ == "__main__":
    sys.exit(main())
