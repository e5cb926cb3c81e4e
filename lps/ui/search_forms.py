"""The form of the Search page: what is searched, what counts as good, what it may cost, and the click that begins it.

What stands in the form becomes the words of the command line, so that both mean the same. It stands in the address.
"""

import shlex
from collections.abc import Mapping

import streamlit as st

from lps import catalog, costs, launcher, search, slurm, start_check
from lps.config import parameters, recipe
from lps.parameters import ConfigError, Parameter, text_of
from lps.search import Request
from lps.search_objective import OBJECTIVES
from lps.search_space import can_be_searched, suggested
from lps.ui import escape, fields, forms, notices, select

ASKED, FAILED = "search_asked", "search_failed"
COLUMN = 195  # pixels, the least width of a field: four of them at 1280
CARD = 250  # of a setting that is searched: two fields side by side
BEGINNING = {"lps": ("margin_scale", "lr")}  # what is searched before anybody says so; of other methods the first ones
TITLES = {
    "balanced": "Withheld labels and even use of classes",
    "validation": "Withheld labels alone",
    "oracle": "Oracle",
}


# ---------------------------------------------------------------------------------------------------- begin


def begin_asked() -> str | None:
    """Begin what was clicked on since the last run of the page; its name, None where nothing was."""
    request = st.session_state.pop(ASKED, None)
    if request is None:
        return None
    try:
        search.check(request)
        start_check.ask(request.base)
        search.load_optuna()
        found = search.ask(request, select.runs_root())
        search.begin(found)
    except (ConfigError, OSError) as error:
        st.session_state[FAILED] = str(error)
        return None
    return request.name


def show_failure() -> None:
    """Why the last click began nothing, once."""
    failure = st.session_state.pop(FAILED, "")
    if failure:
        st.error(escape.markdown(failure), icon=":material/error:")


def _ask(request: Request) -> None:
    st.session_state[ASKED] = request


# ---------------------------------------------------------------------------------------------------- form


def show() -> None:
    """The form, what it means, and the button."""
    errors: dict[str, str] = {}
    with st.grid(columns="auto", min_column_width=COLUMN, gap="medium"):
        method = select.choose(st.selectbox, "method", "Method", catalog.method_titles())
        dataset = select.choose(st.selectbox, "dataset", "Data set", catalog.dataset_titles())
        trials = _whole("Trials", "search_trials", 20, search.MOST_TRIALS, "Points of the space that are tried")
        seeds = st.text_input(
            "Seeds", "0", key="search_seeds", bind="query-params", help="Runs of a trial; their mean counts"
        )
    texts = _ask_space(method, dataset, errors)
    fixed = _ask_fixed(method, dataset, {text.partition("=")[0] for text in texts}, errors)
    objective = _ask_objective()
    with st.grid(columns="auto", min_column_width=COLUMN, gap="medium"):
        with st.container(gap="xxsmall"):
            prune = st.toggle("Stop hopeless trials", True, key="search_prune", bind="query-params")
            fields.say(None, "Those whose best value so far is below the median of the finished ones at that epoch")
        at_once = st.number_input(
            "Trials at a time", 1, search.MOST_PARALLEL, None, key="search_parallel", bind="query-params",
            placeholder="Automatic", help="Automatic: as many as there are slots",
        )  # fmt: skip
        draw = _whole("Seed of the draws", "search_draw", 0, 2**31 - 1, "Trials follow from it and from those before")
        about = "Its runs carry the tag search:NAME. Without one it is called after what it searches"
        name = st.text_input("Name", key="search_name", bind="query-params", max_chars=32, placeholder="Automatic",
                             help=about)  # fmt: skip
    if errors:
        return
    more = {"trials": trials, "prune": prune, "sampler_seed": draw, "parallel": int(at_once) if at_once else None}
    settings = [f"{key}={text}" for key, text in fixed.items()]
    try:
        request = search.read_request(dataset, method, texts, settings, seeds, objective, name.strip(), **more)
        search.check(request)
    except ConfigError as error:
        st.error(escape.markdown(str(error)), icon=":material/edit_off:")
        return
    _offer(request, shlex.join(command(request, settings)))


def _whole(label: str, key: str, usual: int, most: int, about: str) -> int:
    least = min(usual, 1)
    number = st.number_input(label, least, most, usual, key=key, bind="query-params", help=about)
    return int(number)


def searchable(method: str) -> dict[str, Parameter]:
    """The settings that a search may vary, the method's own first."""
    own = catalog.method_info(method).parameters
    return {name: p for name, p in (own | parameters(method)).items() if can_be_searched(name)}


def usual_value(parameter: Parameter, dataset: str):
    """What a setting has where nobody changes it."""
    return recipe(dataset).get(parameter.name, parameter.default)


def _ask_space(method: str, dataset: str, errors: dict[str, str]) -> list[str]:
    """NAME=VALUES of every searched setting; what does not fit goes into `errors` and stands beside its fields."""
    st.subheader("Space", anchor=False)
    known = {name: p for name, p in searchable(method).items() if suggested(p, usual_value(p, dataset)) is not None}
    usual = BEGINNING.get(method) or ([name for name, p in known.items() if p.kind == "float"][:1] + ["lr"])
    chosen = st.multiselect("Settings to search", list(known), list(dict.fromkeys(usual)), key=f"search_space_{method}",
                            bind="query-params", placeholder="Choose at least one")  # fmt: skip
    texts = []
    with st.grid(columns="auto", min_column_width=CARD, gap="medium"):
        for name in chosen:
            with st.container(gap="xxsmall", border=True):
                text = _ask_dimension(known[name], dataset)
                try:
                    search.read_space([text], method)
                    fields.say(None, escape.markdown(forms.explanation(known[name])))
                except ConfigError as error:
                    errors[name] = forms.sentence(error)
                    fields.say(errors[name])
                texts.append(text)
    if not chosen:
        errors["space"] = "nothing is searched"
        st.error("Choose at least one setting to search.", icon=":material/edit_off:")
    return texts


def _ask_dimension(parameter: Parameter, dataset: str) -> str:
    """One row: the ends of a range and its scale, or the choices; begun with a range around the usual value."""
    usual = usual_value(parameter, dataset)
    begun = suggested(parameter, usual)
    name, key = parameter.name, f"search_{parameter.name}"
    st.markdown(f"**{escape.markdown(name)}** (usually {escape.markdown(text_of(usual))})")
    if begun.choices:
        words = [text_of(choice) for choice in begun.choices]
        chosen = st.pills("Choices", words, default=words, selection_mode="multi", key=key, bind="query-params",
                          label_visibility="collapsed")  # fmt: skip
        return f"{name}={','.join(chosen)}"
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        low = st.text_input("From", text_of(begun.low), key=f"{key}_low", bind="query-params", width=90)
        high = st.text_input("To", text_of(begun.high), key=f"{key}_high", bind="query-params", width=90)
        about = "In factors: as many draws from 0.001 to 0.01 as from 0.01 to 0.1"
        log = st.toggle("Log", begun.log, key=f"{key}_log", bind="query-params", help=about)
    return f"{name}={low}..{high}{':log' * log}"


def _ask_fixed(method: str, dataset: str, taken: set[str], errors: dict[str, str]) -> dict[str, str]:
    """What is set for all trials, as texts."""
    asked_above = {*taken, "dataset", "method", "seed"}
    known = {name: p for name, p in parameters(method).items() if name not in asked_above}
    about = catalog.dataset_info(dataset)
    usual = ["dataset.path"] if about.path else []
    key = f"search_fixed_{method}_{dataset}"
    there = [name for name in st.session_state.get(key, []) if name in known]
    if there != st.session_state.get(key, there):
        st.session_state[key] = there  # a setting that is searched now
    chosen = st.multiselect("Settings of all trials", list(known), usual, key=key, bind="query-params",
                            placeholder="None: everything else as usual")  # fmt: skip
    found = {}
    with st.grid(columns="auto", min_column_width=COLUMN, gap="medium"):
        for name in chosen:
            with st.container(gap="xxsmall"):
                value = usual_value(known[name], dataset)
                text = st.text_input(escape.markdown(name), text_of(value), key=f"search_fix_{name}",
                                     bind="query-params")  # fmt: skip
                found[name] = text.strip()
                try:
                    known[name].parse(text)
                    fields.say(None, escape.markdown(forms.explanation(known[name])))
                except ConfigError as error:
                    errors[name] = forms.sentence(error)
                    fields.say(errors[name])
    return found


def _ask_objective() -> str:
    st.subheader("What counts as good", anchor=False)
    captions = [OBJECTIVES[name].words for name in TITLES]
    name = select.choose(st.radio, "objective", "Objective", TITLES, captions=captions, label_visibility="collapsed")
    if OBJECTIVES[name].hidden:
        words = (
            "This looks at the hidden labels of the unlabeled images. Its result says how good the method could be, "
        )
        st.warning(words + "not how good anybody would get it.", icon=":material/visibility:")
    return name


# ---------------------------------------------------------------------------------------------------- offer


def _offer(request: Request, command_line: str) -> None:
    """What it takes, the same as a command, and the button."""
    notices.show_shortage([request.base] * request.trials * len(request.seeds))
    if slurm.is_here():
        st.caption("The runs of a search wait in the queue of this machine; a cluster is not asked for them.")
    st.caption("The same on the command line")
    st.code(command_line, language="bash", wrap_lines=True)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{request.trials} trials** · {cost_in_words(request)}", width="stretch")
        st.button("Start the search", key="search_start", type="primary", icon=":material/search:", on_click=_ask,
                  args=(request,))  # fmt: skip


def cost_in_words(request: Request) -> str:
    """How long all runs take where none is stopped early, and the labels that it costs."""
    runs = request.trials * len(request.seeds)
    at_once = min(request.parallel or launcher.at_once([request.base], select.runs_root()), request.trials)
    seconds = search.estimate(request, select.runs_root())
    said = [f"{runs} runs, {at_once} at a time"]
    if seconds is None:
        said.append("time unknown, since no run of this method on this data set has finished")
    else:
        rounds = costs.side_by_side([seconds / request.trials] * request.trials, at_once)
        said.append(f"at most about {costs.in_words(rounds)}, judged by finished and recorded runs")
    if not OBJECTIVES[request.objective].hidden:
        said.append(f"{100 * request.base.split_validation_ratio:g} % of the labels are withheld from training")
    return "; ".join(said)


def command(request: Request, settings: list[str]) -> list[str]:
    """The words of the command that asks for the same."""
    words = ["python", "-m", "lps", "search", "--dataset", request.base.dataset, "--method", request.base.method]
    for dimension in request.space:
        words += ["--space", dimension.text]
    for text in settings:
        words += ["--set", text]
    options: Mapping[str, object] = {
        "--seeds": ",".join(map(str, request.seeds)),
        "--objective": request.objective,
        "--trials": request.trials,
        "--parallel": request.parallel,
        "--sampler-seed": request.sampler_seed or None,
        "--name": request.name,
    }
    for option, value in options.items():
        words += [option, str(value)] if value is not None else []
    return words + ([] if request.prune else ["--no-prune"])
