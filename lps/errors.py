"""The error that a user sees: one sentence with the value and what was expected."""

from collections.abc import Iterable


class UserError(ValueError):
    """Invalid input or an impossible request, in one sentence for the user. name: the setting or thing it is about."""

    def __init__(self, name, message):
        super().__init__(f"{name}: {message}")
        self.name = name


Refusal = UserError  # the name up to 0.3.0, in users' method and data set files


def check_choice(name: str, value, choices: Iterable[str]) -> None:
    """Raise `UserError` unless the value of `name` is one of the choices."""
    if value not in choices:
        raise UserError(name, f"{shorten(value)} is not one of {', '.join(choices)}")


def check_whole(name: str, value, least: int, most: int, hint: str = "") -> int:
    """Return the value of `name`; raises `UserError` unless it is a whole number in this range. hint: for the error."""
    if type(value) is not int or not least <= value <= most:
        raise UserError(name, f"{shorten(value)} is not a whole number from {least} to {most}{hint}")
    return value


def shorten(value, limit: int = 60) -> str:
    """Quote a value for a one-line message: without control characters, cut at `limit` characters."""
    try:
        text = repr(value)
    except ValueError:  # integers of more than 4,300 digits refuse to become text
        return "a number with thousands of digits"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shown(text, limit: int = 200) -> str:
    """Return a path or name for a sentence, unchanged if it is short and on one line; else shortened and quoted."""
    text = str(text)
    return text if 0 < len(text) <= limit and text.isprintable() else shorten(text, limit)
