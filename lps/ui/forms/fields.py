"""The fields of run forms, each with its meaning or its error below it.

The fields of Launch show the draft and change it. Those of Sweep and Search, at the end of this module, store their
values in the URL.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import groupby

import streamlit as st

from lps.errors import UserError
from lps.machine import devices
from lps.settings import catalog, recipes
from lps.settings.backbone_names import ABOUT_LABELS
from lps.settings.catalog import MethodInfo
from lps.settings.config import parameters, recipe
from lps.settings.parameters import Parameter, text_of
from lps.store import titles
from lps.store.runs import Run
from lps.ui.forms import form, term_formulas
from lps.ui.forms.form import Draft
from lps.ui.server import page_visit
from lps.ui.shared import escape, select, url_fields
from lps.wording import capitalized

_VALUE_OF_CODE = re.compile(r"([^()]*) \((authors' code|third-party code|\w+'s code)([;,] [^()]*)?\)")
_SIDE_BY_SIDE = 20  # letters of choices that fit beside each other
_EFFORTS = {
    "stored": ("Stored features", f"A pretrained network describes each picture once by numbers (features), and only a "
               f"small network is trained on them. This takes minutes on a CPU. {ABOUT_LABELS}."),
    "light": ("Light", "Trains a small network from scratch on small copies of your pictures. This takes minutes on a "
              "CPU but is less accurate. It is good for a first look."),
    "full": ("Full", "Uses larger pictures, a larger network and more epochs. This is made for a GPU; on a CPU, it "
             "takes hours."),
}  # fmt: skip
_VIEWS = {"simple": "Simple", "everything": "Everything"}
_COLUMN = 250  # pixels, the least width of a field


def read_link(is_clicked: bool) -> None:
    """Replace the form's content by that of a new link.

    is_clicked: the start button was clicked. A click, like a change (`keep_draft`), is sent with the browser's address,
    which may be older than the form's content: the change before it may not have reached the address yet.
    """
    if not is_clicked and _form_query() and _form_query() != st.session_state.get("launch_link"):
        st.session_state["draft"], st.session_state["launch_notices"] = _draft_from_query()
        st.session_state["read_link"] = _form_query(), current_draft()


def current_draft() -> Draft:
    """Return the form's content in this session."""
    return form.valid_draft(st.session_state.setdefault("draft", Draft()))


def keep_draft(draft: Draft) -> None:
    """Store a draft as the form's content, from the next run of the script on or from a callback."""
    st.session_state["draft"], st.session_state["launch_link"] = draft, _form_query()


def write_link() -> None:
    """Put the form into the URL, so that a reload or a link restores it; keep the URL that it was read from.

    That URL may say the same in another way (`clone=RUN`). Another entry in the browser's history for it would make the
    way back to the page before longer.
    """
    if st.session_state.get("read_link") == (_form_query(), current_draft()):
        st.session_state["launch_link"] = _form_query()
        return
    link = {
        key: value if isinstance(value, list) else [value] for key, value in form.link_to_draft(current_draft()).items()
    }
    if link != _form_query():
        page_visit.wait_for_path()
        other_parameters = {key: st.query_params.get_all(key) for key in st.query_params.keys() - _form_query().keys()}
        st.query_params.from_dict(other_parameters | link)
    st.session_state["launch_link"] = link


def show_title() -> None:
    """Show the page's title, the choice of view, and the button that resets the form."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.title("Launch", anchor=False, width="stretch")
        if current_draft() != Draft():
            st.button(
                "Start over", icon=":material/restart_alt:", type="tertiary", on_click=keep_draft, args=(Draft(),)
            )
        options = {"format_func": _VIEWS.get, "label_visibility": "collapsed"}
        url_fields.draw_field(
            st.segmented_control,
            "form:view",
            chosen_view(),
            _store_view,
            "Which settings to show",
            list(_VIEWS),
            **options,
        )


def chosen_view() -> str:
    """Return the view of the form, one of `_VIEWS`: from the URL, otherwise this visitor's last choice."""
    requested = st.query_params.get("view")
    view = requested if requested in _VIEWS else st.session_state.get("launch_view", "simple")
    _store_view(view)
    return view


def show_groups(groups: Mapping[str, list[Parameter]], errors: Mapping[str, str]) -> None:
    """Show a method's settings under their headings; consecutive groups with a single setting are side by side."""
    for are_single, run_of_groups in groupby(groups.items(), key=lambda group: len(group[1]) == 1):
        with field_grid() if are_single else st.container():
            for title, members in run_of_groups:
                with st.container():
                    heading = f"**{escape.markdown(title or 'More settings of this method')}**"
                    st.markdown(" · ".join(filter(None, [heading, _count_changes(members, errors)])))
                    show_grid(members, errors)


def show_grid(members: list[Parameter], errors: Mapping[str, str]) -> None:
    """Show fields side by side, as many as fit."""
    with field_grid():
        for parameter in members:
            with st.container(gap="xxsmall"):
                show_field(parameter, errors.get(parameter.name))


def show_field(parameter: Parameter, error: str | None) -> None:
    """Show one setting: switch, choice or line of text, a reset button once changed, and its meaning or error."""
    key = parameter.name
    changed = key in current_draft().texts
    state_key = "changed" if changed else "usual"  # the label is plain, since screen readers read it as it is written
    with st.container(key=f"{state_key}-{key}", horizontal=True, vertical_alignment="bottom", gap="xsmall"):
        _show_widget(
            parameter, form.setting_label(key), current_draft().text(key), f"set:{key}", partial(_store_text, key)
        )
        if changed:
            usual = current_draft().usual(key)
            st.button(
                "Reset",
                icon=":material/undo:",
                key=f"reset:{key}",
                help=f"Reset to {escape.markdown(parameter.shown(usual) if parameter.choices else usual)}",
                type="tertiary",
                on_click=lambda: keep_draft(current_draft().without([key])),
            )
    show_error_or_help(error, _describe_setting(parameter))


def _describe_setting(parameter: Parameter) -> str:
    """Describe a setting as markdown: symbol, meaning, effect of a larger value, the paper's value.

    The symbol is plain text: a typeset formula wraps after the first paint and moves everything below it.
    """
    documentation, meaning = parameter.told, escape.markdown(parameter.meaning)
    symbol = escape.markdown(parameter.plain_symbol)
    sentences = [f"{symbol}: {meaning}" if symbol else capitalized(meaning)]
    sentences += [f"A larger value: {escape.markdown(documentation.larger)}"] if documentation.larger else []
    sentences += [escape.markdown(_describe_published(documentation.paper))] if documentation.paper else []
    return ". ".join(sentences)


def _describe_published(value: str) -> str:
    """Say where a published value comes from: "In the paper: 10", "In the authors' code: 1; the paper gives none"."""
    if found := _VALUE_OF_CODE.fullmatch(value):
        number, code, remark = found.groups("")
        return f"In {'the ' * code.startswith('authors')}{code}: {number}{remark}"
    return f"In the paper: {value}"


def are_hints(errors: Mapping[str, str]) -> bool:
    """Return whether the errors are only missing inputs, nothing wrong that the user typed."""
    return bool(errors) and not errors.keys() & {"seed", *current_draft().texts}


def show_error_or_help(error: str | None, otherwise: str = "", is_hint: bool = False) -> None:
    """Show the error of a field, or markdown that explains it. is_hint: the field is still untouched."""
    if error and is_hint:
        hint = error.removeprefix("nothing is given; ")
        st.caption(escape.markdown(capitalized(hint)))
    elif error:
        st.markdown(f":small[:red[{escape.markdown(capitalized(error))}]]")
    elif otherwise:
        st.caption(otherwise)


def draw_draft_field(widget: Callable, key: str, label: str, value, *args, as_text: Callable = str, **options) -> None:
    """Show a widget for the setting `key` with `value`; a change is stored in the draft by `as_text`."""
    url_fields.draw_field(
        widget,
        f"set:{key}",
        value,
        lambda changed_value: _store_text(key, as_text(changed_value)),
        label,
        *args,
        **options,
    )


def draw_text_field(key: str, label: str, error: str | None, **options) -> None:
    """Show a line of text for the setting `key`."""
    parameter = parameters(current_draft().method)[key]
    draw_draft_field(st.text_input, key, label, form.text_in_field(parameter, current_draft().text(key)), **options)
    show_error_or_help(error, is_hint=key not in current_draft().texts)


def choose_dataset_or_method(key: str, label: str, titles: Mapping[str, str], broken: Mapping[str, str]) -> None:
    """Show the choice of the data set or the method, and name files that are broken."""
    options = {"format_func": titles.get, "label_visibility": "collapsed"}
    _ask_choice(st.selectbox, key, label, list(titles), **options)
    for reason in broken.values():
        show_error_or_help(reason)


def choose_effort() -> None:
    """Show the choice of the training effort, if the data set offers one, with the cost of each."""
    offered = [name for name in _EFFORTS if name in recipes.training_efforts(current_draft().dataset)]
    if not offered:
        return
    url_fields.draw_field(
        st.segmented_control, "form:effort", current_draft().effort,
        lambda effort: keep_draft(current_draft().with_effort(effort)),
        "Training", [*offered, "full"], format_func=lambda name: _EFFORTS[name][0],
    )  # fmt: skip
    st.caption(_EFFORTS[current_draft().effort][1])


def show_meaning(method: MethodInfo) -> None:
    """Show what a method does, in a sentence."""
    meaning = method.summary.partition(": ")[2] or method.summary
    st.caption(capitalized(meaning))


def show_formulas(method: MethodInfo, settings: Mapping[str, object]) -> None:
    """Show, on demand, the objective, its terms under these settings, and the method's origin."""
    box = st.expander("Formulas, citation, and deviations from the original", key="formulas", on_change="rerun")
    if not box.open:
        return
    with box:
        for formula in form.split_formulas(method.sections.get("Objective", "")):
            st.latex(formula)
        for term in term_formulas.FORMULAS if method.name == "lps" and settings else ():
            formula_text = term_formulas.formula_of(term, settings)
            st.markdown(f"The term **{escape.markdown(form.setting_label(term))}**:")
            st.latex(formula_text.latex)
            st.caption(f"{formula_text.numbers} {formula_text.letters}")
        for section in ("Citation", "Deviations"):
            st.markdown(method.sections.get(section, ""))


def draw_seeds_or_name(key: str, label: str, error: str | None, explanation: str, **options) -> None:
    """Show the field for the seeds or the name of the form."""
    with st.container(gap="xxsmall"):
        _ask_choice(st.text_input, key, label, **options)
        show_error_or_help(error, explanation)


def _ask_choice(widget: Callable, key: str, label: str, *args, **options) -> None:
    url_fields.draw_field(
        widget, f"form:{key}", getattr(current_draft(), key), partial(_store_choice, key), label, *args, **options
    )


def choose_device(error: str | None, on_this_machine: bool = True) -> None:
    """Show the choice of the device, and why there is no GPU. on_this_machine: False if a cluster's nodes train."""
    all_devices = devices.list_devices() if on_this_machine else []
    labels = {"auto": "Automatic"} | {device.name: device.label for device in all_devices if device.available}
    if not on_this_machine:
        labels |= {"cpu": "CPU of the node", "cuda": "GPU of the node"}
    requested_device = current_draft().text("device")
    labels |= {} if requested_device in labels else {requested_device: requested_device}
    reasons = [f"{device.label}: {device.reason}" for device in all_devices if not device.available]
    reasons += [] if on_this_machine else ["the job uses a device of its cluster node; to use a GPU, request one below"]
    with st.container(gap="xxsmall"):
        draw_draft_field(st.selectbox, "device", "Device", requested_device, list(labels), format_func=labels.get)
        show_error_or_help(error, escape.markdown("; ".join(reasons)))


def _store_text(key: str, text: str) -> None:
    """Store what was typed for `key` in the draft.

    Other pictures may have another default effort, which is used unless the user chose one.
    """
    previous = current_draft()
    draft = previous.with_text(key, text)
    follows = key == "dataset.path" and previous.effort == form.default_effort(previous)
    keep_draft(draft.with_effort(form.default_effort(draft)) if follows else draft)


def _store_choice(key: str, text: str) -> None:
    draft = current_draft().with_choice(**{key: text})
    keep_draft(draft.with_effort(form.default_effort(draft)) if key == "dataset" else draft)


def _store_view(name: str) -> None:
    st.session_state["launch_view"] = name
    url_fields.set_values("view", None if name == "simple" else name)


@contextmanager
def group_box(title: str, key: str, members: list[Parameter], errors: Mapping[str, str]) -> Iterator[bool]:
    """Draw the settings of a group in a box that opens; gives whether it is open, since a closed one draws nothing.

    The number of changed and of invalid settings is below the box: a box with another label is another one, closed.
    """
    with st.container(gap="xxsmall"):
        box = st.expander(title, key=f"group:{key}", on_change="rerun")
        with box:
            yield bool(box.open)
        if counts := _count_changes(members, errors):
            st.caption(counts)


def _count_changes(members: list[Parameter], errors: Mapping[str, str]) -> str:
    """Return the number of changed and of invalid settings, as markdown."""
    names = {member.name for member in members}
    changed, wrong = len(names & current_draft().texts.keys()), len(names & errors.keys())
    parts = [f"**{changed} changed**" if changed else "", f":red[{wrong} to correct]" if wrong else ""]
    return " · ".join(filter(None, parts))


def _show_widget(parameter: Parameter, label: str, text: str, key: str, store: Callable[[str], object]) -> None:
    """Show a switch, choices or a line of text with the value `text`; `store` gets the changed text."""
    choices, options = parameter.choices, {"width": "stretch"}
    titles = [parameter.shown(choice) for choice in choices]
    if parameter.kind == "bool":
        url_fields.draw_field(st.toggle, key, text == "true", lambda new: store(text_of(new)), label, **options)
    elif titles and sum(map(len, titles)) <= _SIDE_BY_SIDE:
        options["format_func"] = dict(zip(choices, map(escape.markdown, titles))).get
        url_fields.draw_field(st.segmented_control, key, text, store, label, choices, **options)
    elif titles:
        url_fields.draw_field(st.selectbox, key, text, store, label, choices, format_func=parameter.shown, **options)
    else:
        options |= {"placeholder": form.NONE if parameter.optional else None}
        url_fields.draw_field(st.text_input, key, form.text_in_field(parameter, text), store, label, **options)


def _form_query() -> dict[str, list[str]]:
    """Return the part of the URL that describes the form."""
    return {key: st.query_params.get_all(key) for key in st.query_params if key in ("clone", "set", *form.LINK_KEYS)}


def _draft_from_query() -> tuple[Draft, list[str]]:
    """Return the draft in the URL and what could not be understood; `clone=RUN` first, then the changes in `set`."""
    query = _form_query()
    if "clone" not in query:
        return form.draft_from_link(query)
    try:
        run = select.find_run(query["clone"][-1])
        name, changes = run.meta()["name"], query.get("set", [])
        if titles.is_of_sweep(name, run.config()) and any(change.startswith("seed=") for change in changes):
            name = ""  # it names the other seed
        draft, problems = form.change_settings(form.draft_from_config(run.config(), name), changes)
        return draft, [*_missing_data(run), *problems]
    except UserError as error:
        return Draft(), [f"This run cannot be copied. {form.error_sentence(error)}"]


def _missing_data(run: Run) -> list[str]:
    """Return a sentence if a recording does not tell where its data set was, nothing otherwise."""
    info = catalog.dataset_info(run.config().dataset)
    if not run.is_recorded or not info.path or run.config().dataset_path is not None:
        return []
    return [f"This recorded run comes without its pictures. To train on your own copy, enter it in “{info.path}”."]


# ---------------------------------------------------------------------------------------------------- of many runs


def settings_of_methods(methods: Iterable[str]) -> dict[str, Parameter]:
    """Return every setting of some methods, the methods' own first; none of methods whose file is broken."""
    methods = [method for method in methods if method in catalog.method_names()]
    method_settings = {name: p for method in methods for name, p in catalog.method_info(method).parameters.items()}
    return method_settings | {name: p for method in methods for name, p in parameters(method).items()}


def default_value(parameter: Parameter, dataset: str, method: str = ""):
    """Return the default of a setting. method: "" if there are several."""
    return recipe(dataset, method).get(parameter.name, parameter.default)


def field_grid(width: int = _COLUMN):
    """Return a container for fields side by side, as many as fit. width: the minimum width of a field."""
    return st.grid(columns="auto", min_column_width=width, gap="medium")


@contextmanager
def explained_field(
    parameter: Parameter, errors: dict[str, str], border: bool = False, methods: Iterable[str] = ()
) -> Iterator[None]:
    """Draw the widgets of one setting; below them the `UserError` of its value, otherwise its meaning.

    methods: those that have the setting, which may mean something else in each.
    """
    with st.container(gap="xxsmall", border=border):
        try:
            yield
        except UserError as error:
            errors[parameter.name] = form.error_sentence(error)
        show_error_or_help(errors.get(parameter.name), _about_all(parameter, methods))


def _about_all(parameter: Parameter, methods: Iterable[str]) -> str:
    """Describe a setting in each of the methods that have it, once if it is the same in all, as markdown."""
    parameter_by_method = {method: settings_of_methods([method]).get(parameter.name) for method in methods}
    meanings = {
        titles.method_title(method): _describe_setting(documented)
        for method, documented in parameter_by_method.items()
        if documented
    }
    if len({*meanings.values()}) < 2:
        return _describe_setting(parameter)
    return "  \n".join(f"**{escape.markdown(title)}**: {meaning}" for title, meaning in meanings.items())


def ask_name(kind: str, verb: str, max_chars: int) -> str:
    """Return the name of the sweep or search. kind: "sweep" or "search"; verb: "covers", for its help."""
    help_text = f"All runs of the {kind} get the tag {kind}:NAME. If you give no name, the {kind} is named after what "
    help_text += f"it {verb}"
    return url_fields.text_field("Name", f"{kind}_name", max_chars=max_chars, placeholder="Automatic", help=help_text)


def menu_of_settings(names: Iterable[str]) -> dict[str, str]:
    """Return the menu entry of each setting; typing "margin scale" or "margin_scale" finds it."""
    return {name: f"{name.replace('_', ' ')} ({name})" if "_" in name else name for name in names}


def ask_fixed(
    label: str,
    name: str,
    prefix: str,
    parameters_by_name: Mapping[str, Parameter],
    dataset: str,
    errors: dict[str, str],
    usual: Iterable[str] = (),
    width: int = _COLUMN,
    methods: Iterable[str] = (),
) -> dict[str, str]:
    """Return settings that all runs share, as name -> text.

    name: of the menu in the URL; prefix: of the fields; methods: see `explained_field`.
    """
    text_by_name = {}
    selected = url_fields.choose_many(
        label,
        name,
        menu_of_settings(parameters_by_name),
        usual,
        placeholder="None: all other settings, such as epochs, have their defaults",
    )
    with field_grid(width):
        for key in selected:
            with explained_field(parameters_by_name[key], errors, methods=methods):
                text_by_name[key] = _ask_setting(
                    parameters_by_name[key], f"{prefix}{key}", text_of(default_value(parameters_by_name[key], dataset))
                )
                parameters_by_name[key].parse(text_by_name[key])
    return text_by_name


def _ask_setting(parameter: Parameter, name: str, usual: str) -> str:
    """Return the text of a setting, stored in the URL under `name`."""
    text = st.query_params.get(name, usual).strip() or (form.NONE if parameter.optional else "")
    offered = ("true", "false") if parameter.kind == "bool" else parameter.choices
    text = usual if offered and text not in offered else text
    _show_widget(
        parameter,
        parameter.name,
        text,
        name,
        lambda changed_text: url_fields.set_unless_default(usual, name, changed_text),
    )
    return text
