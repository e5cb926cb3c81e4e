"""Escape text from runs and data sets (names, notes, classes, log lines) where Streamlit reads markdown."""

import re

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
# What Streamlit replaces after the backslashes are gone: :shortcodes: and :directives[], arrows and dashes, bare links.
_REPLACED = re.compile(r"(?<=:)(?=\S)|(?<=-)(?=[->])|(?<=<)(?=-)|(?<=@)|(?<=www)(?=\.)", re.IGNORECASE)
WORD_JOINER = "\u2060"  # has no width and allows no line break


def markdown(text: str) -> str:
    """Escape `text` so that markdown shows exactly these characters: no links, images, formulas or icons."""
    line = " ".join(str(text).split())
    return _PUNCTUATION.sub(r"\\\1", _REPLACED.sub(WORD_JOINER, line))


def sentence(error: Exception | str) -> str:
    """Return the text of an error as a sentence with one period, escaped like `markdown`."""
    return markdown(str(error).rstrip(".") + ".")
