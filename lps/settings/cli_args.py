"""Write settings, and commands with settings, quoted for a shell."""

import shlex
from collections.abc import Mapping, Sequence

from lps.settings.config import Config
from lps.settings.parameters import text_of

_OWN_OPTIONS = ("dataset", "method", "seed")  # settings with their own option instead of --set


def format_setting(name: str, value: object) -> str:
    """Return NAME=VALUE, as after `--set` and in a form's address."""
    return f"{name}={text_of(value)}"


def format_settings(values: Mapping[str, object]) -> list[str]:
    """Return NAME=VALUE for each setting."""
    return [format_setting(name, value) for name, value in values.items()]


def differing_settings(values: Mapping[str, object], usual: Mapping[str, object]) -> dict[str, object]:
    """Return the `--set` arguments for those of `values` that differ from `usual`."""
    return {key: value for key, value in values.items() if key not in _OWN_OPTIONS and value != usual.get(key)}


def task_options(config: Config) -> dict[str, object]:
    """Return the options of a command that trains `config`, without its other settings."""
    return {key: getattr(config, key) for key in _OWN_OPTIONS}


def join_values(values: Sequence[object]) -> str:
    """Join several values of one option."""
    return ",".join(map(str, values))


def option_words(**options: object) -> list[str]:
    """Return the words of options: `sample_seed=3` becomes --sample-seed 3.

    True becomes the option alone, a mapping the option with NAME=VALUE for each of its settings, and a list the option
    for every value; None, False and empty values are left out.
    """
    words = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            several = format_settings(value) if isinstance(value, Mapping) else value
            texts = several if isinstance(several, (list, tuple)) else [str(several)]
            words += [word for text in texts if text for word in _pair(option, text)]
    return words


def _pair(option: str, text: str) -> tuple[str, ...]:
    """Return an option with its value; as one word if the value would be read as an option."""
    return (f"{option}={text}",) if text.startswith("-") else (option, text)


def format_command(name: str, /, *positional: str, **options: object) -> str:
    """Return the shell command `python -m lps NAME` with positional arguments and `options` as in `option_words`."""
    return shlex.join(["python", "-m", "lps", name, *positional, *option_words(**options)])
