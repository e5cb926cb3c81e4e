"""Fields whose value is stored in the URL of the page, so that a link or a reload restores it. Defaults are left out.

Every field is a widget that shows a value stored elsewhere and hands changes back: see `draw_field`. Streamlit's own
`bind="query-params"` writes the text of a choice into the URL, so links would break whenever a text changes.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.runtime.scriptrunner import get_script_run_ctx

from lps.settings.parameters import text_of

_CHANGES = "address changes"  # in the session: (page, [(time of a change, URL before it)], URL after the last one)
_LATE_S = 3.0  # so long after a change, a busy browser may still send the address from before it
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def draw_field(widget: Callable, key: str, value, on_change: Callable, *args, **options):
    """Draw a widget that shows `value`; `on_change` gets the user's change before the page runs again.

    args, options: of the widget, its label first. In a segmented control, one option stays chosen.
    """
    format_func = options.get("format_func")
    if widget is st.segmented_control:
        options["required"] = True
    if widget in (st.segmented_control, st.multiselect):
        options["wrap"] = True  # in one row, the last options are out of sight on a phone
    choices = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    set_widget(key, value, "\n".join(map(format_func, choices)) if format_func else "")
    return widget(*args, key=key, on_change=_pass_value, args=(key, on_change), **options)


def _pass_value(key: str, on_change: Callable) -> None:
    on_change(st.session_state[key])


def set_widget(key: str, value, text: str = "") -> None:
    """Make a widget show `value`; do nothing if it already does, so that nothing jumps.

    For Streamlit, a widget with this key on another page is another widget, which begins without a value. text: of the
    value in a menu; the browser would go on showing an old text of the same value, and send it with the next choice.
    """
    drawn_fields, drawn = st.session_state.setdefault("drawn_fields", {}), (_page(), text)
    if st.session_state.get(key) != value or drawn_fields.get(key) != drawn:
        st.session_state[key] = value
    drawn_fields[key] = drawn


def forget_drawn_fields() -> None:
    """Make all fields send their values to the browser again."""
    st.session_state.pop("drawn_fields", None)


def _page() -> str:
    context = get_script_run_ctx()
    return context.page_script_hash if context else ""


def set_values(name: str, value: str | Iterable[str] | None, *removed_names: str) -> None:
    """Write one or several values of a name into the URL, or remove it (None); removed_names are removed, too."""
    values = [value] if isinstance(value, str) else [*(value or [])]
    _change_address({name: values} | dict.fromkeys(removed_names, []))


def _change_address(changes: Mapping[str, list[str]]) -> None:
    """Write values into the URL, or remove names without values, as one step of the browser's history.

    An unchanged URL is not sent to the browser.
    """
    restore_changes()
    before = read_address()
    after = {name: values for name, values in (before | changes).items() if values}
    if after != before:
        _write_address(after)
        st.session_state[_CHANGES] = (_page(), [*_recent_addresses(), (time.monotonic(), before)], after)


def restore_changes() -> None:
    """Write the URL of the last change again if the browser has sent the one from before it.

    The browser sends its URL with every click. If a change just before the click has not reached this URL yet, the form
    would be read without it. Call this at the start of a page.
    """
    page, _, current = st.session_state.get(_CHANGES, ("", [], {}))
    address = read_address()
    if page != _page():
        st.session_state.pop(_CHANGES, None)
    elif any(address == old for _, old in _recent_addresses()):
        _write_address(current)


def _write_address(address: Mapping[str, list[str]]) -> None:
    """Replace the URL, as one step if no widget is bound to one of its names; such a widget writes its name itself."""
    try:
        st.query_params.from_dict(address)
    except StreamlitAPIException:
        before = read_address()
        for name in [name for name in {**before, **address} if before.get(name) != address.get(name)]:
            with suppress(StreamlitAPIException):
                if name in address:
                    st.query_params[name] = address[name]
                else:
                    del st.query_params[name]


def is_changed_by_user() -> bool:
    """Return whether the URL of the page is that of the user's last change of a field."""
    page, _, current = st.session_state.get(_CHANGES, ("", [], {}))
    return page == _page() and current == read_address()


def _recent_addresses() -> list[tuple[float, dict[str, list[str]]]]:
    """Return the URLs from before the changes of the last seconds, and when each was replaced."""
    _, replaced, current = st.session_state.get(_CHANGES, ("", [], {}))
    earliest = time.monotonic() - _LATE_S
    return [(at, old) for at, old in replaced if at > earliest and old != current]


def read_address() -> dict[str, list[str]]:
    """Return all parameters of the URL with their values."""
    return {name: st.query_params.get_all(name) for name in st.query_params}


def set_unless_default(default: str, name: str, value: str | None) -> None:
    """Write a value into the URL, unless it is the default."""
    set_values(name, None if value == default else value)


def read_choice(name: str, options: list[str]) -> str:
    """Return the value in the URL if it is one of `options`, otherwise the first of them."""
    value = st.query_params.get(name, "")
    return value if value in options else options[0]


def choose_one(widget: Callable, name: str, label: str, labels: Mapping[str, str], **options) -> str:
    """Show a choice of one; the default is the first of `labels`.

    widget: a Streamlit selectbox, radio or segmented control. labels: text of each option.
    """
    value, on_change = read_choice(name, list(labels)), partial(set_unless_default, next(iter(labels)), name)
    draw_field(
        widget,
        f"picked_{name}",
        value,
        on_change,
        label,
        list(labels),
        format_func=partial(_option_text, labels),
        **options,
    )
    return value


def choose_many(
    label: str, name: str, labels: Iterable[str], default: Iterable[str] = (), widget: Callable | None = None, **options
) -> list[str]:
    """Show a choice of any number. labels: the options, or the text of each, which old URLs contain instead."""
    choices, default = list(labels), list(default)
    label_by_choice = labels if isinstance(labels, Mapping) else {}
    choice_by_label = {text: word for word, text in label_by_choice.items()}
    requested = st.query_params.get_all(name) if name in st.query_params else default
    chosen = dict.fromkeys(word if word in choices else choice_by_label.get(word) for word in requested)
    value = [word for word in chosen if word is not None]
    options |= {"selection_mode": "multi"} if widget else {"select_all": False}
    on_change = partial(_set_chosen, name, default)
    draw_field(
        widget or st.multiselect,
        name,
        value,
        on_change,
        label,
        choices,
        format_func=partial(_option_text, label_by_choice),
        **options,
    )
    return value


def text_field(label: str, name: str, default: str = "", **options) -> str:
    """Show a line of text; return it without the spaces around it."""
    value = st.query_params.get(name, default)[: options.get("max_chars")]
    draw_field(st.text_input, name, value, partial(set_unless_default, default, name), label, **options)
    return value.strip()


def whole_number_field(label: str, name: str, default: int | None, maximum: int | None, **options) -> int | None:
    """Show a field for a whole number from 1, or from 0 if that is the default."""
    value, minimum = read_number(name), 0 if default == 0 else 1
    if value is None or value < minimum or (maximum is not None and value > maximum):
        value = default

    def on_change(number: float | None) -> None:
        set_number(name, None if number in (None, default) else int(number))

    initial = None if default is None else "min"  # with None it could be emptied
    draw_field(st.number_input, name, value, on_change, label, minimum, maximum, initial, 1, **options)
    return value


def switch_field(label: str, name: str, default: bool, **options) -> bool:
    """Show a switch, true or false in the URL."""
    value = {"true": True, "false": False}.get(st.query_params.get(name), default)
    draw_field(
        st.toggle,
        name,
        value,
        lambda is_on: set_unless_default(text_of(default), name, text_of(is_on)),
        label,
        **options,
    )
    return value


def read_number(name: str) -> int | None:
    """Return a whole number of the URL, such as the epoch; None if there is none."""
    value = st.query_params.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) <= 10 else None


def set_number(name: str, value: int | None) -> None:
    """Write a number into the URL, or remove it."""
    set_numbers(**{name: value})


def set_numbers(**value_by_name: int | None) -> None:
    """Write numbers into the URL, or remove them, in one step."""
    _change_address({name: [] if value is None else [str(value)] for name, value in value_by_name.items()})


def open_number(name: str, clicked: int | None) -> None:
    """Write the number that the user has clicked into the URL and draw the page again; nothing if it is there."""
    if clicked is not None and clicked != read_number(name):
        set_number(name, clicked)
        st.rerun()


def page_link() -> str:
    """Return the current URL of the page."""
    pairs = []
    for key in st.query_params:
        pairs += [f"{_quote_word(key)}={_quote_word(value)}" for value in st.query_params.get_all(key)]
    return f"{(st.context.url or '').partition('?')[0]}{'?' * bool(pairs)}{'&'.join(pairs)}"


def _set_chosen(name: str, default: list[str], choices: list[str]) -> None:
    set_values(name, None if choices == default else choices or [""])


def _option_text(labels: Mapping[str, str], choice: str) -> str:
    return labels.get(choice, choice)


def _quote_word(text: str) -> str:
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in text.encode())
