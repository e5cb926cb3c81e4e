"""Fields whose value stands in the page's address, so that a link or a reload restores it. Usual values are left out.

Every field is a widget that shows a value kept elsewhere, and hands a change back: see `draw_field`. Streamlit's own
`bind="query-params"` writes the words of a choice into the address, so links would break whenever a word changes.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from lps.settings.parameters import text_of

_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def draw_field(widget: Callable, key: str, value, take: Callable, *args, **options):
    """A widget that shows `value`; `take` gets what a person changes it to, before the page runs again.

    args, options: of the widget, its label first.
    """
    set_widget(key, value)
    return widget(*args, key=key, on_change=_hand_over_value, args=(key, take), **options)


def _hand_over_value(key: str, take: Callable) -> None:
    take(st.session_state[key])


def set_widget(key: str, value) -> None:
    """Let a widget show `value`; untouched where it does already, so that nothing jumps.

    A widget with this key on another page is another widget to Streamlit, which begins without a value.
    """
    pages, page = st.session_state.setdefault("field_pages", {}), _page()
    if st.session_state.get(key) != value or pages.get(key) != page:
        st.session_state[key] = value
    pages[key] = page


def _page() -> str:
    context = get_script_run_ctx()
    return context.page_script_hash if context else ""


def set_words(name: str, value: str | Iterable[str] | None, *gone: str) -> None:
    """Write a word or several into the address, or take it out (None); `gone` are taken out as well.

    The browser hears nothing where the address says so already.
    """
    words = [value] if isinstance(value, str) else [*(value or [])]
    if not words:
        gone = (name, *gone)
    elif st.query_params.get_all(name) != words:
        st.query_params[name] = words
    for other in gone:
        st.query_params.pop(other, None)


def set_word_unless(usual: str, name: str, word: str | None) -> None:
    """Write a word into the address, unless it is the usual one."""
    set_words(name, None if word == usual else word)


def read_choice(name: str, options: list[str]) -> str:
    """A word of the address that is one of `options`, else the first of them."""
    word = st.query_params.get(name, "")
    return word if word in options else options[0]


def choose_one(widget: Callable, name: str, label: str, words: Mapping[str, str], **options) -> str:
    """A choice, the first of `words` where the address has none.

    widget: a Streamlit selectbox, radio or segmented control. words: option -> what people read.
    """
    value, take = read_choice(name, list(words)), partial(set_word_unless, next(iter(words)), name)
    draw_field(
        widget, f"picked_{name}", value, take, label, list(words), format_func=partial(_option_text, words), **options
    )
    return value


def choose_many(
    label: str, name: str, words: Iterable[str], usual: Iterable[str] = (), widget: Callable | None = None, **options
) -> list[str]:
    """Any number of choices. words: the options, or option -> what people read, which old addresses have instead."""
    offered, usual = list(words), list(usual)
    shown = words if isinstance(words, Mapping) else {}
    by_words = {text: word for word, text in shown.items()}
    requested = st.query_params.get_all(name) if name in st.query_params else usual
    found = dict.fromkeys(word if word in offered else by_words.get(word) for word in requested)
    value = [word for word in found if word is not None]
    options |= {"selection_mode": "multi"} if widget else {"select_all": False}
    take = partial(_set_chosen, name, usual)
    draw_field(
        widget or st.multiselect, name, value, take, label, offered, format_func=partial(_option_text, shown), **options
    )
    return value


def text_field(label: str, name: str, usual: str = "", **options) -> str:
    """A line of text, without the spaces around it."""
    value = st.query_params.get(name, usual)[: options.get("max_chars")]
    draw_field(st.text_input, name, value, partial(set_word_unless, usual, name), label, **options)
    return value.strip()


def whole_number_field(label: str, name: str, usual: int | None, most: int | None, **options) -> int | None:
    """A whole number from 1, or from 0 where that is the usual one."""
    value, least = read_number(name), 0 if usual == 0 else 1
    if value is None or value < least or (most is not None and value > most):
        value = usual

    def take(new: float | None) -> None:
        set_number(name, None if new in (None, usual) else int(new))

    start = None if usual is None else "min"  # with None it could be emptied
    draw_field(st.number_input, name, value, take, label, least, most, start, 1, **options)
    return value


def switch_field(label: str, name: str, usual: bool, **options) -> bool:
    """A switch, true or false in the address."""
    value = {"true": True, "false": False}.get(st.query_params.get(name), usual)
    draw_field(
        st.toggle, name, value, lambda new: set_word_unless(text_of(usual), name, text_of(new)), label, **options
    )
    return value


def read_number(name: str) -> int | None:
    """A whole number of the address, such as the epoch; None where it has none."""
    word = st.query_params.get(name, "")
    return int(word) if word.isascii() and word.isdigit() and len(word) <= 10 else None


def set_number(name: str, value: int | None) -> None:
    """Write a number into the address, or take it out."""
    set_words(name, None if value is None else str(value))


def page_link() -> str:
    """The address of the page as it is."""
    pairs = []
    for key in st.query_params:
        pairs += [f"{_quote_word(key)}={_quote_word(value)}" for value in st.query_params.get_all(key)]
    return f"{(st.context.url or '').partition('?')[0]}{'?' * bool(pairs)}{'&'.join(pairs)}"


def restore_address(name: str) -> None:
    """Bring back the address that `remember` kept, where the page is opened without one.

    name: of a field that the form always has; Streamlit forgets it once another page is shown.
    """
    if not st.query_params and name not in st.session_state:
        st.query_params.from_dict(st.session_state.get(f"address of {name}", {}))


def remember_address(name: str) -> None:
    """Keep the address for the way back to this page; to be called once its form is drawn."""
    st.session_state[f"address of {name}"] = {key: st.query_params.get_all(key) for key in st.query_params}


def _set_chosen(name: str, usual: list[str], words: list[str]) -> None:
    set_words(name, None if words == usual else words or [""])


def _option_text(words: Mapping[str, str], word: str) -> str:
    return words.get(word, word)


def _quote_word(word: str) -> str:
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in word.encode())
