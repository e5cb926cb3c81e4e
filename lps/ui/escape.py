"""Text from runs and data sets (names, notes, class names, log lines) made literal where Streamlit reads markdown."""

import re

PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
# What Streamlit replaces after the backslashes are gone: :shortcodes: and :directives[], arrows and dashes, bare links.
REPLACED = re.compile(r"(?<=:)(?=\S)|(?<=-)(?=[->])|(?<=<)(?=-)|(?<=@)|(?<=www)(?=\.)", re.IGNORECASE)
WORD_JOINER = "\u2060"  # has no width and allows no line break


def markdown(text: str) -> str:
    """`text` so that a markdown label or body shows exactly these characters: no links, images, formulas or icons."""
    line = " ".join(str(text).split())
    return PUNCTUATION.sub(r"\\\1", REPLACED.sub(WORD_JOINER, line))
