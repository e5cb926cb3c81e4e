"""The fields of the launch form as widgets: each shows the draft, writes into it, and has its misfit beside it."""

from collections.abc import Callable, Mapping
from itertools import groupby

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from lps.errors import Refusal
from lps.machine import devices
from lps.settings import recipes
from lps.settings.backbone_names import ABOUT_LABELS
from lps.settings.catalog import MethodInfo
from lps.settings.parameters import Parameter, text_of
from lps.store.run_folders import find_run
from lps.ui.forms import form, term_formulas
from lps.ui.forms.form import Draft
from lps.ui.shared import escape, select

_SIDE_BY_SIDE = 20  # letters of choices that fit beside each other
_EFFORTS = {
    "stored": ("Stored features", f"A network that comes along looks at every picture once: minutes on a CPU. "
               f"{ABOUT_LABELS}."),
    "light": ("Light", "From nothing but these pictures, made small, with a small network: minutes on a CPU, and less "
              "accurate. A good first look."),
    "full": ("Full", "Larger pictures, a larger network, more epochs: made for a GPU; hours on a CPU."),
}  # fmt: skip
_VIEWS = {"simple": "Simple", "everything": "Everything"}
COLUMN = 250  # pixels, the least width of a field


def draft() -> Draft:
    """What stands in the form of this session; a link that says something else replaces it."""
    if _query() and _query() != st.session_state.get("launch_link"):
        st.session_state["draft"], st.session_state["launch_notices"] = _from_query()
    return form.possible(st.session_state.setdefault("draft", Draft()))


def keep(new: Draft) -> None:
    """Make `new` what stands in the form, after the current run or from a callback."""
    st.session_state["draft"] = new


def write_link() -> None:
    """Put the form into the URL, so that a reload or a link restores it."""
    link = {key: value if isinstance(value, list) else [value] for key, value in form.link(draft()).items()}
    if link != _query():
        others = {key: st.query_params.get_all(key) for key in st.query_params.keys() - _query().keys()}
        st.query_params.from_dict(others | link)
    st.session_state["launch_link"] = link


def show_title() -> None:
    """The page's title, how much of the form is shown, and the way back to an untouched form."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.title("Launch", anchor=False, width="stretch")
        if draft() != Draft():
            st.button("Start over", icon=":material/restart_alt:", type="tertiary", on_click=keep, args=(Draft(),))
        st.session_state["form:view"] = view()
        st.segmented_control("How much is asked", _VIEWS, format_func=_VIEWS.get, required=True, key="form:view",
                             label_visibility="collapsed", on_change=_take_view)  # fmt: skip


def view() -> str:
    """How much of the form is shown, one of `_VIEWS`: as the address has it, else as this visitor left it."""
    asked = st.query_params.get("view")
    found = asked if asked in _VIEWS else st.session_state.get("launch_view", "simple")
    _remember_view(found)
    return found


def show_groups(groups: Mapping[str, list[Parameter]], errors: Mapping[str, str]) -> None:
    """A method's settings under their headings; single ones that follow each other stand side by side."""
    for are_single, found in groupby(groups.items(), key=lambda group: len(group[1]) == 1):
        with _grid() if are_single else st.container():
            for title, members in found:
                with st.container():
                    st.markdown(heading(f"**{escape.markdown(title or 'More of this method')}**", members, errors))
                    show_grid(members, errors)


def show_grid(members: list[Parameter], errors: Mapping[str, str]) -> None:
    """Fields side by side, as many as fit."""
    with _grid():
        for parameter in members:
            with st.container(gap="xxsmall"):
                show(parameter, errors.get(parameter.name))


def _grid() -> DeltaGenerator:
    return st.grid(columns="auto", min_column_width=COLUMN, gap=("small", "medium"))


def show(parameter: Parameter, error: str | None) -> None:
    """One setting: switch, choice or line of text; the way back to its default once changed; its meaning or misfit."""
    changed = parameter.name in draft().texts
    label = form.label(parameter.name)
    standing = "changed" if changed else "usual"  # the label is plain, since screen readers read it as it is written
    with st.container(key=f"{standing}-{parameter.name}", horizontal=True, vertical_alignment="bottom", gap="xsmall"):
        _widget(parameter, label)
        if changed:
            st.button(
                "Reset",
                icon=":material/undo:",
                key=f"reset:{parameter.name}",
                help=f"Back to {escape.markdown(_default(parameter))}",
                type="tertiary",
                on_click=_reset,
                args=([parameter.name],),
            )
    say(error, about(parameter))


def about(parameter: Parameter) -> str:
    """The symbol of a setting, its meaning, what a larger value does and what the paper has, as markdown."""
    told, meaning = parameter.told, escape.markdown(parameter.meaning)
    said = [f"${parameter.symbol}$: {meaning}" if parameter.symbol else meaning[:1].upper() + meaning[1:]]
    said += [f"Larger: {escape.markdown(told.larger)}"] if told.larger else []
    said += [f"Paper: {escape.markdown(told.paper)}"] if told.paper else []
    return ". ".join(said)


def are_hints(errors: Mapping[str, str]) -> bool:
    """Whether nothing that a person typed is wrong: something is asked for that is not there yet."""
    return bool(errors) and not errors.keys() & {"seed", *draft().texts}


def say(error: str | None, otherwise: str = "", is_hint: bool = False) -> None:
    """The misfit of a field, or markdown that explains it. is_hint: of a field that nobody has touched."""
    if error and is_hint:
        words = error.removeprefix("is missing; ")
        st.caption(escape.markdown(words[:1].upper() + words[1:]))
    elif error:
        st.markdown(f":small[:red[{escape.markdown(error[:1].upper() + error[1:])}]]")
    elif otherwise:
        st.caption(otherwise)


def type_into(key: str, label: str, error: str | None, **options) -> None:
    """A line of text for the setting `key`."""
    widget = f"set:{key}"
    st.session_state[widget] = draft().shown(key)
    st.text_input(label, key=widget, on_change=take, args=(key, str), **options)
    say(error, is_hint=key not in draft().texts)


def choose(key: str, label: str, titles: Mapping[str, str], broken: Mapping[str, str]) -> None:
    """The data set or the method of the form, and which files of theirs are broken."""
    widget = f"form:{key}"
    st.session_state[widget] = getattr(draft(), key)
    st.selectbox(label, list(titles), format_func=titles.get, key=widget, on_change=_take_choice, args=(key,),
                 label_visibility="collapsed")  # fmt: skip
    for reason in broken.values():
        say(reason)


def choose_effort() -> None:
    """How much training, where the data set offers a choice; what each costs and rests on."""
    offered = [name for name in _EFFORTS if name in recipes.efforts(draft().dataset)]
    if not offered:
        return
    st.session_state["form:effort"] = draft().effort
    st.segmented_control("Training", [*offered, "full"], format_func=lambda name: _EFFORTS[name][0], required=True,
                         key="form:effort", on_change=_take_effort)  # fmt: skip
    st.caption(_EFFORTS[draft().effort][1])


def show_meaning(method: MethodInfo) -> None:
    """What a method does, in a sentence."""
    meaning = method.summary.partition(": ")[2] or method.summary
    st.caption(meaning[:1].upper() + meaning[1:])


def show_formulas(method: MethodInfo, settings: Mapping[str, object]) -> None:
    """On demand the objective, its terms as they are under these settings, and where the method comes from."""
    box = st.expander("Formulas, citation, and deviations from the original", key="formulas", on_change="rerun")
    if not box.open:
        return
    with box:
        for formula in form.formulas(method.sections.get("Objective", "")):
            st.latex(formula)
        for term in term_formulas.FORMULAS if method.name == "lps" and settings else ():
            found = term_formulas.formula_of(term, settings)
            st.markdown(f"**{escape.markdown(form.label(term))}** as it stands below")
            st.latex(found.latex)
            st.caption(f"{found.numbers} {found.letters}")
        for section in ("Citation", "Deviations"):
            st.markdown(method.sections.get(section, ""))


def write(key: str, label: str, error: str | None, explanation: str, **options) -> None:
    """The seeds or the name of the form."""
    widget = f"form:{key}"
    st.session_state[widget] = getattr(draft(), key)
    with st.container(gap="xxsmall"):
        st.text_input(label, key=widget, on_change=_take_choice, args=(key,), **options)
        say(error, explanation)


def choose_device(error: str | None, is_here: bool = True) -> None:
    """Where to train; says why there is no GPU where there is none. is_here: False where a cluster's nodes train."""
    found = devices.list_devices() if is_here else []
    labels = {"auto": "Automatic"} | {device.name: device.label for device in found if device.available}
    if not is_here:
        labels |= {"cpu": "CPU of the node", "cuda": "GPU of the node"}
    asked = draft().text("device")
    labels |= {} if asked in labels else {asked: asked}
    missing = [f"{device.label}: {device.reason}" for device in found if not device.available]
    missing += [] if is_here else ["What the job gets of its node; ask for a GPU below"]
    st.session_state["set:device"] = asked
    with st.container(gap="xxsmall"):
        st.selectbox("Device", list(labels), format_func=labels.get, key="set:device", on_change=take,
                     args=("device", str))  # fmt: skip
        say(error, escape.markdown("; ".join(missing)))


def take(key: str, as_text: Callable) -> None:
    """Callback: what the widget of `key` shows goes into the draft.

    Other pictures may have another usual effort, which goes along unless a person chose one.
    """
    old = draft()
    new = old.with_text(key, as_text(st.session_state[f"set:{key}"]))
    follows = key == "dataset.path" and old.effort == form.usual_effort(old)
    keep(new.with_effort(form.usual_effort(new)) if follows else new)


def _take_choice(key: str) -> None:
    new = draft().with_choice(**{key: st.session_state[f"form:{key}"]})
    keep(new.with_effort(form.usual_effort(new)) if key == "dataset" else new)


def _take_view() -> None:
    _remember_view(st.session_state["form:view"])


def _remember_view(name: str) -> None:
    st.session_state["launch_view"] = name
    if name != "simple":
        st.query_params["view"] = name
    else:
        st.query_params.pop("view", None)


def _take_effort() -> None:
    keep(draft().with_effort(st.session_state["form:effort"]))


def _reset(keys: list[str]) -> None:
    """Callback: these settings go back to their defaults."""
    keep(draft().without(keys))


def heading(title: str, members: list[Parameter], errors: Mapping[str, str]) -> str:
    """The line above a group of settings: how many differ from the defaults, how many do not fit."""
    names = {member.name for member in members}
    changed, wrong = len(names & draft().texts.keys()), len(names & errors.keys())
    parts = [title, f"**{changed} changed**" if changed else "", f":red[{wrong} to correct]" if wrong else ""]
    return " · ".join(filter(None, parts))


def _widget(parameter: Parameter, label: str) -> None:
    key, text = f"set:{parameter.name}", draft().text(parameter.name)
    about = {"key": key, "on_change": take, "width": "stretch"}
    if parameter.kind == "bool":
        st.session_state[key] = text == "true"
        st.toggle(label, **about, args=(parameter.name, text_of))
        return
    st.session_state[key] = text
    about |= {"args": (parameter.name, str), "label_visibility": "visible"}
    words = [parameter.shown(choice) for choice in parameter.choices]
    if words and sum(map(len, words)) <= _SIDE_BY_SIDE:
        shown = dict(zip(parameter.choices, map(escape.markdown, words)))
        st.segmented_control(label, parameter.choices, required=True, format_func=shown.get, **about)
    elif words:
        st.selectbox(label, parameter.choices, format_func=parameter.shown, **about)
    else:
        st.session_state[key] = draft().shown(parameter.name)
        st.text_input(label, placeholder=form.NONE if parameter.optional else None, **about)


def _default(parameter: Parameter) -> str:
    usual = draft().usual(parameter.name)
    return parameter.shown(usual) if parameter.choices else usual


def _query() -> dict[str, list[str]]:
    """The part of the address that speaks of the form."""
    return {key: st.query_params.get_all(key) for key in st.query_params if key in ("clone", "set", *form.LINK_KEYS)}


def _from_query() -> tuple[Draft, list[str]]:
    """The draft of the URL, `clone=RUN` with what `set` changes of it first, and what could not be understood."""
    query = _query()
    if "clone" not in query:
        return form.from_link(query)
    try:
        run = find_run(select.runs_root(), query["clone"][-1], by_path=False)
        return form.changed(form.from_config(run.config(), run.meta()["name"]), query.get("set", []))
    except Refusal as error:
        return Draft(), [f"This run cannot be copied. {form.sentence(error)}"]
