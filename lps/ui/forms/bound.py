"""Fields that stand in the page's address by themselves, as the forms of Sweeps and Search have them.

Each has its meaning below it, or the sentence of what does not fit, which goes into `errors` by the field's name.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import streamlit as st

from lps.errors import Refusal
from lps.settings import catalog
from lps.settings.config import parameters, recipe
from lps.settings.parameters import Parameter, text_of
from lps.ui.forms import fields, form

_BOUND = {"bind": "query-params"}


def settings_of(methods: Iterable[str]) -> dict[str, Parameter]:
    """Every setting of some methods, the methods' own first; of those whose file is broken none."""
    methods = [method for method in methods if method in catalog.method_names()]
    own = {name: p for method in methods for name, p in catalog.method_info(method).parameters.items()}
    return own | {name: p for method in methods for name, p in parameters(method).items()}


def usual_value(parameter: Parameter, dataset: str, method: str = ""):
    """What a setting has where nobody changes it. method: "" where there are several."""
    return recipe(dataset, method).get(parameter.name, parameter.default)


def grid(width: int = fields.COLUMN):
    """Fields side by side, as many as fit. width: the least one of a field."""
    return st.grid(columns="auto", min_column_width=width, gap="medium")


@contextmanager
def explained(parameter: Parameter, errors: dict[str, str], border: bool = False) -> Iterator[None]:
    """The widgets of one setting; a `Refusal` of what was typed stands below them, else what the setting means."""
    with st.container(gap="xxsmall", border=border):
        try:
            yield
        except Refusal as error:
            errors[parameter.name] = form.sentence(error)
        fields.say(errors.get(parameter.name), fields.about(parameter))


def many(label: str, key: str, names: Iterable[str], usual: Iterable[str] = (), **options) -> list[str]:
    """A box for any number of names, which may come with titles; Enter takes the first that fits what was typed."""
    titles = names if isinstance(names, Mapping) else {}
    return st.multiselect(
        label,
        list(names),
        list(usual),
        format_func=lambda name: titles.get(name, name),
        key=key,
        select_all=False,
        **_BOUND,
        **options,
    )


def whole(label: str, key: str, usual: int, most: int | None, about: str | None = None, **options) -> int:
    """A whole number from 1, or from 0 where that is the usual one."""
    return int(st.number_input(label, min(usual, 1), most, usual, key=key, help=about, **_BOUND, **options))


def ask_seeds(kind: str, usual: str, about: str) -> str:
    """What was typed for the seeds. kind: what is asked for, "sweep" or "search"."""
    return st.text_input("Seeds", usual, key=f"{kind}_seeds", help=about, **_BOUND)


def ask_name(kind: str, does: str, most: int) -> str:
    """The name of what is asked for. kind: as of `ask_seeds`; does: "covers", as said of it; most: letters."""
    about = f"Its runs carry the tag {kind}:NAME. Without one it is called after what it {does}"
    options = {"max_chars": most, "placeholder": "Automatic", "help": about}
    return st.text_input("Name", key=f"{kind}_name", **_BOUND, **options).strip()


def fixed(
    label: str,
    keys: tuple[str, str],
    known: Mapping[str, Parameter],
    dataset: str,
    errors: dict[str, str],
    usual: Iterable[str] = (),
    width: int = fields.COLUMN,
) -> dict[str, str]:
    """Settings that all runs have alike: name -> text. keys: of the box, and what those of its fields begin with."""
    key, prefix = keys
    there = [name for name in st.session_state.get(key, []) if name in known]
    if there != st.session_state.get(key, there):
        st.session_state[key] = there  # a setting that is asked for elsewhere now
    found = {}
    chosen = many(label, key, list(known), usual, placeholder="None: everything else as usual")
    with grid(width):
        for name in chosen:
            with explained(known[name], errors):
                text = text_of(usual_value(known[name], dataset))
                found[name] = st.text_input(name, text, key=f"{prefix}{name}", **_BOUND).strip()
                known[name].parse(found[name])
    return found
