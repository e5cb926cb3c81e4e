"""Write settings, and commands with settings, quoted for a shell."""

import shlex
from collections.abc import Mapping, Sequence

from lps.settings.config import Config
from lps.settings.parameters import text_of

_ASKED_FIRST = ("dataset", "method", "seed")  # settings with an option of their own, which --set does not take


def format_setting(name: str, value: object) -> str:
    """NAME=VALUE, as after `--set` and in the address of a form."""
    return f"{name}={text_of(value)}"


def format_settings(values: Mapping[str, object]) -> list[str]:
    """NAME=VALUE for each."""
    return [format_setting(name, value) for name, value in values.items()]


def differing_settings(values: Mapping[str, object], usual: Mapping[str, object]) -> dict[str, object]:
    """Return the `--set` arguments for those of `values` that differ from `usual`."""
    return {key: value for key, value in values.items() if key not in _ASKED_FIRST and value != usual.get(key)}


def task_options(config: Config) -> dict[str, object]:
    """The options of a command that trains `config`, without its other settings."""
    return {key: getattr(config, key) for key in _ASKED_FIRST}


def join_values(values: Sequence[object]) -> str:
    """Several values of one option."""
    return ",".join(map(str, values))


def option_words(**options: object) -> list[str]:
    """The words of options: `sample_seed=3` is --sample-seed 3.

    True is an option alone, a mapping NAME=VALUE for each of its settings and a list the option again for every value;
    None, False and what is empty are left out.
    """
    words_found = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words_found.append(option)
        elif value is not None and value is not False:
            several = format_settings(value) if isinstance(value, Mapping) else value
            texts = several if isinstance(several, (list, tuple)) else [str(several)]
            words_found += [word for text in texts if text for word in _pair(option, text)]
    return words_found


def _pair(option: str, text: str) -> tuple[str, ...]:
    """An option with its value: one word where the value would be taken for an option."""
    return (f"{option}={text}",) if text.startswith("-") else (option, text)


def format_command(name: str, /, *places: str, **options: object) -> str:
    """`python -m lps NAME` with positional arguments and `options` as of `option_words`, to be pasted into a shell."""
    return shlex.join(["python", "-m", "lps", name, *places, *option_words(**options)])
