"""A refusal: what a person asked for and cannot have, in one sentence with the value and what was expected."""


class UserError(ValueError):
    """What cannot be done, in one sentence for the person who asked; `name` is the setting or thing it is about."""

    def __init__(self, name, message):
        super().__init__(f"{name}: {message}")
        self.name = name


Refusal = UserError  # the name up to 0.3.0, in method and data set files that people wrote


def shorten(value, limit: int = 60) -> str:
    """A value as it may stand in a one-line message: quoted, without control characters, cut at `limit`."""
    try:
        text = repr(value)
    except ValueError:  # integers of more than 4,300 digits refuse to become text
        return "a number with thousands of digits"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shown(text, limit: int = 200) -> str:
    """A path or name in a sentence: as it is, or shortened and quoted where it is no short piece of a line."""
    text = str(text)
    return text if 0 < len(text) <= limit and text.isprintable() else shorten(text, limit)
