"""The form of the Sweeps page: a table of the paper or an own layout, what it would start, and the click that does.

What stands in the form is read into the words of the command line (`sweeps.Layout`, `presets.Asked`), so the page, the
command and what is kept beside the runs mean the same. The form stands in the page's address.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from lps import catalog, costs, launcher, preset_tables, presets, queue, start_check, sweeps
from lps.config import Config, parameters, recipe
from lps.costs import Cost
from lps.parameters import ConfigError, Parameter, text_of
from lps.sweeps import Estimate, Layout, Sweep
from lps.ui import escape, fields, forms, notices, places, select, sweep_tables
from lps.ui.places import Place

KINDS = {"preset": "A table of the paper", "own": "Own layout"}
SCALES = {"demo": "Demo, on digits", "paper": "The paper's"}
MODES = {"grid": "Grid", "list": "List", "random": "Random"}
ASKED, FAILED = "sweep_asked", "sweep_failed"
ACTIONS = {"new": "new", "exists": "exists: {}, used as it is", "resumed": "goes on: {}"}
MOST_ROWS = 12  # of the preview that are seen at once
COLUMN = 250  # pixels, the least width of a field
HERE = Place(None, {})
# Of the preview: what it takes stands beside the run, where a telephone still shows it.
COLUMNS = {"Run": st.column_config.TextColumn(width="medium")} | dict.fromkeys(
    ("Time", "What becomes of it"), st.column_config.TextColumn(width="small")
)


@dataclass(frozen=True)
class Draft:
    """What the form asks for. asked: None where something does not fit; errors: a sentence by field."""

    asked: Layout | presets.Asked | None
    errors: Mapping[str, str]
    name: str = ""
    retries: int = 0


# ---------------------------------------------------------------------------------------------------- start


def start_asked() -> str | None:
    """Start what was clicked on since the last run of the page; the name of the sweep, None where nothing was."""
    kept, name, retries, place = st.session_state.pop(ASKED, (None, "", 0, HERE))
    asked = sweeps.from_kept(kept) if kept else None
    if asked is None:
        return None
    try:
        with st.spinner("Making the run folders"):
            wanted = sweeps.sketch(asked, select.runs_root(), name)
            sweeps.check([item.config for item in wanted.items], place.is_here)
            places.check(place)
            _check_starts(wanted)
            started = sweeps.start(wanted, select.runs_root(), retries=retries or None, on=place.on)
    except (ConfigError, OSError) as error:
        st.session_state[FAILED] = str(error)
        return None
    return started.name


def _check_starts(wanted: Sweep) -> None:
    """Whether start weights fit, once for every kind of start."""
    configs = [item.config for item in wanted.items]
    kinds = {(c.dataset, c.network_name, c.network_start, c.network_checkpoint): c for c in configs}
    for config in kinds.values():
        start_check.ask(config)


def ask(kept: Mapping, name: str, retries: int = 0, place: Place = HERE) -> None:
    """Callback: what stands beside the button is to be started; a second click asks for the same runs."""
    st.session_state[ASKED] = (dict(kept), name, retries, place)


def show_failure() -> None:
    """Why the last click started nothing, once."""
    failure = st.session_state.pop(FAILED, "")
    if failure:
        st.error(escape.markdown(failure), icon=":material/error:")


# ---------------------------------------------------------------------------------------------------- form


def show() -> None:
    """The form, the runs that it means, and the button."""
    kind = select.choose(st.segmented_control, "kind", "Lay out", KINDS, required=True, label_visibility="collapsed")
    draft = _ask_preset() if kind == "preset" else _ask_layout()
    _show_places()
    if draft.asked is None:
        key, words = next(iter(draft.errors.items()))
        st.error(escape.markdown(f"{key}: {words}"), icon=":material/edit_off:")
        return
    _preview(draft)


def _ask_preset() -> Draft:
    titles = {name: f"{preset.title} · {preset.place}" for name, preset in presets.PRESETS.items()}
    usual = {"ablation": titles["ablation"]} | titles
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        chosen = presets.PRESETS[select.choose(st.selectbox, "preset", "Table", usual, width=420)]
        scale = select.choose(st.segmented_control, "scale", "Scale", SCALES, required=True)
    st.caption(escape.markdown(f"{chosen.about} Scale: {presets.SCALES[scale]}."))
    with st.grid(columns="auto", min_column_width=COLUMN, gap="medium"):
        seeds, wrong = _ask_seeds()
        datasets = _ask_datasets(chosen) if scale == "paper" else ()
        name, retries = _ask_name(), _ask_retries()
    own = {key for line in chosen.lines for key in line.settings}
    methods = dict.fromkeys(str(line.settings.get("method", "lps")) for line in chosen.lines)
    fixed, misfits = _ask_fixed(list(methods), own, presets.DEMO if scale == "demo" else chosen.datasets[0])
    if wrong or misfits:
        return Draft(None, wrong | misfits)
    asked = presets.Asked(chosen.name, scale, seeds, datasets, fixed)
    return _checked(asked, name, retries)


def _ask_layout() -> Draft:
    with st.grid(columns="auto", min_column_width=COLUMN, gap="medium"):
        datasets = _many("Data sets", "sweep_datasets", catalog.dataset_titles(), ["digits"])
        methods = _many("Methods", "sweep_methods", catalog.method_titles(), ["lps"])
        seeds, wrong = _ask_seeds()
        name, retries = _ask_name(), _ask_retries()
    if not datasets or not methods:
        return Draft(None, {"Methods" if datasets else "Data sets": "choose at least one"})
    known = _known(methods)
    varied, misfits = _ask_varied(known, datasets[0])
    fixed, more = _ask_fixed(methods, set(varied), datasets[0])
    mode, samples, sample_seed = _ask_mode(varied)
    if wrong or misfits or more:
        return Draft(None, wrong | misfits | more)
    asked = Layout(tuple(datasets), tuple(methods), seeds, fixed, varied, mode, samples, sample_seed)
    return _checked(asked, name, retries)


def _checked(asked: Layout | presets.Asked, name: str, retries: int) -> Draft:
    try:
        sweeps.sketch(asked, select.runs_root(), name)
    except ConfigError as error:
        return Draft(None, {error.name: forms.sentence(error)})
    return Draft(asked, {}, name, retries)


def _many(label: str, key: str, titles: Mapping[str, str], usual: list[str], **more) -> list[str]:
    """A box for any number of names."""
    return st.multiselect(
        label,
        list(titles),
        default=usual,
        format_func=lambda name: titles.get(name, name),
        key=key,
        bind="query-params",
        **more,
    )


def _ask_seeds() -> tuple[tuple[int, ...], dict[str, str]]:
    text = st.text_input("Seeds", "0, 1, 2", key="sweep_seeds", bind="query-params", help="Every run once for each")
    try:
        return tuple(forms.parse_seeds(text)), {}
    except ConfigError as error:
        return (), {"Seeds": forms.sentence(error)}


def _ask_name() -> str:
    about = "Its runs carry the tag sweep:NAME. Without one it is called after what it covers"
    text = st.text_input(
        "Name", key="sweep_name", bind="query-params", max_chars=34, placeholder="Automatic", help=about
    )
    return text.strip()


def _ask_retries() -> int:
    """How often; a cluster has its own way of doing it, so there is nothing to ask."""
    about, is_away = "How often a run whose processes were killed starts again by itself", not places.read().is_here
    if is_away:
        about = f"SLURM is a cluster, {launcher.ELSEWHERE['retries']}"
        st.session_state["sweep_retries"] = 0
    options = {"key": "sweep_retries", "bind": "query-params", "disabled": is_away, "help": about}
    return int(st.number_input("Retries after a crash", 0, queue.MOST_RETRIES, 0, **options))


def _ask_datasets(preset: presets.Preset) -> tuple[str, ...]:
    titles = {name: catalog.dataset_info(name).title for name in preset.datasets}
    chosen = _many("Data sets", "sweep_only", titles, [], placeholder="All of the table")
    return tuple(name for name in preset.datasets if name in chosen)


def _known(methods: list[str]) -> dict[str, Parameter]:
    """Every setting of some of the methods, the methods' own first."""
    own = {name: p for method in methods for name, p in catalog.method_info(method).parameters.items()}
    shared = {name: p for method in methods for name, p in parameters(method).items()}
    return {name: p for name, p in (own | shared).items() if name not in sweeps.ASKED_ELSEWHERE}


def _ask_varied(known: Mapping[str, Parameter], dataset: str) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The settings to vary with their values as texts, and what does not fit."""
    chosen = _many(
        "Settings to vary", "sweep_vary", {name: name for name in known}, [], placeholder="None: seeds alone"
    )
    found, wrong = {}, {}
    with st.grid(columns="auto", min_column_width=COLUMN, gap="medium"):
        for name in chosen:
            with st.container(gap="xxsmall"):
                try:
                    found[name] = _values(known[name], dataset)
                    fields.say(None, escape.markdown(forms.explanation(known[name])))
                except ConfigError as error:
                    wrong[name] = forms.sentence(error)
                    fields.say(wrong[name])
    return found, wrong


def _values(parameter: Parameter, dataset: str) -> tuple[str, ...]:
    """The values of one setting, each checked; raises `ConfigError`."""
    key, label = f"vary:{parameter.name}", f"{parameter.name}, values"
    choices = ["true", "false"] if parameter.kind == "bool" else list(parameter.choices)
    if choices:
        texts = tuple(st.pills(label, choices, default=choices, selection_mode="multi", key=key, bind="query-params"))
        if not texts:
            raise ConfigError(parameter.name, "choose at least one value")
        return texts
    usual = text_of(recipe(dataset).get(parameter.name, parameter.default))
    text = st.text_input(
        label, usual, key=key, bind="query-params", help="V1, V2, ... or V1|V2 where values hold commas"
    )
    texts = sweeps.split_values(parameter.name, text)
    for value in texts:
        parameter.parse(value)
    return texts


def _ask_fixed(methods: list[str], taken: set[str], dataset: str) -> tuple[dict[str, str], dict[str, str]]:
    """What is set for all runs, as texts, and what does not fit."""
    known = {name: p for name, p in _known(methods).items() if name not in taken}
    words = {"placeholder": "None: everything else as usual"}
    there = [name for name in st.session_state.get("sweep_fixed", []) if name in known]
    if there != st.session_state.get("sweep_fixed", there):
        st.session_state["sweep_fixed"] = there  # a setting that another table varies itself
    chosen = _many("Settings of all runs", "sweep_fixed", {name: name for name in known}, [], **words)
    found, wrong = {}, {}
    with st.grid(columns="auto", min_column_width=COLUMN, gap="medium"):
        for name in chosen:
            with st.container(gap="xxsmall"):
                usual = text_of(recipe(dataset).get(name, known[name].default))
                found[name] = st.text_input(name, usual, key=f"fix:{name}", bind="query-params").strip()
                try:
                    known[name].parse(found[name])
                    fields.say(None, escape.markdown(forms.explanation(known[name])))
                except ConfigError as error:
                    wrong[name] = forms.sentence(error)
                    fields.say(wrong[name])
    return found, wrong


def _ask_mode(varied: Mapping[str, tuple[str, ...]]) -> tuple[str, int | None, int]:
    """How values are combined; nothing to choose where one setting varies."""
    if len(varied) < 2:
        return "grid", None, 0
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        mode = select.choose(st.segmented_control, "mode", "Combined as", MODES, required=True)
        if mode != "random":
            st.caption(f"{sweeps.MODES[mode][:1].upper()}{sweeps.MODES[mode][1:]}.")
            return mode, None, 0
        about = {"min_value": 1, "bind": "query-params", "width": 140}
        samples = st.number_input("Combinations", value=10, max_value=sweeps.MOST_RUNS, key="sweep_samples", **about)
        seed = st.number_input("Seed of the draw", value=0, key="sweep_draw", **about | {"min_value": 0})
        return mode, int(samples), int(seed)


def _show_places() -> None:
    """Where the runs go, and how many at a time."""
    places.show(several=True)
    if not places.read().is_here:
        return
    try:
        slots = launcher.cpu_slots(select.runs_root())
    except ConfigError as error:
        st.error(escape.markdown(str(error)), icon=":material/error:")
        return
    words = "one run at a time" if slots == 1 else f"{slots} runs at a time"
    st.caption(
        f"On this machine: {words} on the CPU, one on each GPU; the others wait in the queue, which goes on when this "
        "page is closed. The page Queue says how many at a time."
    )


# ---------------------------------------------------------------------------------------------------- preview


def _preview(draft: Draft) -> None:
    """What it costs, the button, and the runs with what becomes of them; nothing has been written so far."""
    root = select.runs_root()
    wanted = sweeps.sketch(draft.asked, root, draft.name)
    left = [item.config for item in wanted.items if item.action != "exists"]
    known = dict(zip((config.to_json() for config in left), known_costs(left)))
    found = list(known.values())
    estimate = sweeps.add_up(left, found)
    st.subheader("Preview", anchor=False)
    place = places.read()
    slots = launcher.at_once(left, root) if place.is_here else 1
    cost = cost_in_words(estimate, found, slots)
    st.markdown(f"**{escape.markdown(wanted.tag)}** · {counts_in_words(wanted)}  \n{cost}")
    notices.show_shortage(left)
    _offer_start(wanted, draft, place)
    if not place.errors and (staying := sweeps.staying_in_words(wanted.items, place.on)):
        st.info(f"{staying}.", icon=":material/schedule:")
    rows = [
        {
            "Run": item.label,
            "What becomes of it": ACTIONS[item.action].format(item.state.name if item.state else ""),
            "Time": _time(known.get(item.config.to_json())) if item.action != "exists" else "",
        }
        for item in wanted.items
    ]
    height = 38 + 35 * min(MOST_ROWS, len(rows))
    st.dataframe(
        pd.DataFrame(rows, columns=list(COLUMNS)),
        width="stretch",
        height=height,
        hide_index=True,
        column_config=COLUMNS,
        alt="The runs of this sweep",
    )
    if isinstance(draft.asked, presets.Asked):
        with st.expander("The table that it fills, beside the paper's numbers", icon=":material/table:"):
            sheet = presets.sheet(draft.asked)
            sweep_tables.show_grid(preset_tables.grid(sheet, {}))
    st.caption("The same on the command line")
    st.code(places.command(draft.asked.command(draft.name), place), language="bash", wrap_lines=True)


def counts_in_words(wanted: Sweep) -> str:
    """ "15 runs: 12 new, 3 exist already"."""
    words = {"new": "new", "exists": "exist already", "resumed": "go on where they broke off"}
    found = [f"{wanted.count(action)} {text}" for action, text in words.items() if wanted.count(action)]
    return f"{len(wanted.items)} run{'s' * (len(wanted.items) != 1)}: {', '.join(found)}"


def cost_in_words(estimate: Estimate, each: Sequence[Cost | None], slots: int) -> str:
    """How long what is left will take, and how much disk. each: cost of each run; slots: how many run at a time."""
    if not estimate.runs:
        return "Nothing is left to do."
    said, known = [], estimate.runs - estimate.missing
    slots = min(slots, known)
    if known:
        share = "" if known == estimate.runs else f"{known} of {estimate.runs} runs: "
        at_once = costs.side_by_side((cost.seconds for cost in each if cost is not None), slots)
        at_once = f" (about {costs.in_words(at_once)} with {slots} at a time)" if slots > 1 else ""
        said.append(f"{share}about {costs.in_words(estimate.seconds)} one after another{at_once}")
        said.append(f"{costs.size_in_words(estimate.bytes)} of disk, judged by finished and recorded runs")
    if estimate.missing:
        kinds = ", ".join(estimate.unknown[:3]) + (
            f" and {len(estimate.unknown) - 3} more" * (len(estimate.unknown) > 3)
        )
        said.append(
            f"time and disk of {estimate.missing} runs unknown, since none of {escape.markdown(kinds)} has finished"
        )
    return "; ".join(said) + "."


def known_costs(configs: Sequence[Config]) -> list[Cost | None]:
    """What each will cost, by finished runs; None where none is of its kind."""
    return _costs(str(select.runs_root()), tuple(config.to_json() for config in configs), list(configs))


@st.cache_resource(ttl=20, max_entries=50, show_spinner=False)
def _costs(root: str, keys: tuple[str, ...], _configs: list) -> list[Cost | None]:
    """What each of the runs will cost; asked of the disk at most every twenty seconds."""
    return sweeps.expected(_configs, select.runs_root())


def _time(cost: Cost | None) -> str:
    return "unknown" if cost is None else costs.in_words(cost.seconds)


def _offer_start(wanted: Sweep, draft: Draft, place: Place) -> None:
    """The button, or what stands in the way."""
    if place.errors:
        st.error(f"SLURM: {escape.markdown(forms.obstacle(place.errors))}", icon=":material/block:")
        return
    try:
        sweeps.check([item.config for item in wanted.items], place.is_here)
    except ConfigError as error:
        st.error(escape.markdown(str(error)), icon=":material/block:")
        return
    fresh = len(wanted.items) - wanted.count("exists")
    label = f"Start {fresh} runs" if fresh > 1 else "Start 1 run" if fresh else "Open it: all of it exists"
    icon = ":material/rocket_launch:"
    args = (draft.asked.kept(), wanted.name, draft.retries, place)
    st.button(label, key="sweep_start", type="primary", icon=icon, on_click=ask, args=args)
