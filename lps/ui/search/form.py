"""The form of the page Search: space, objective, cost, and the button that starts the search.

The form is read as arguments of the command line, so that both mean the same. The URL stores it.
"""

import streamlit as st

from lps.cluster import executors
from lps.errors import UserError
from lps.scheduler import costs, run_slots, start_check
from lps.settings import catalog, cli_args
from lps.settings.config import parameters
from lps.settings.parameters import Parameter, text_of
from lps.studies import core_sharing, search
from lps.studies.search import Request
from lps.studies.search_objective import OBJECTIVES
from lps.studies.search_space import can_be_searched, suggested
from lps.ui.forms import fields, start_runs
from lps.ui.server import page_visit
from lps.ui.shared import escape, export_buttons, notices, select, url_fields
from lps.wording import counted

_COLUMN = 195  # pixels, the least width of a field: four of them at 1280
_DEFAULT_SPACE = {"lps": ("margin_scale", "lr")}  # of other methods, the first number and the learning rate
_TITLES = {
    "balanced": "Balanced use of all classes, and accuracy on withheld labels",
    "validation": "Accuracy on withheld labels only",
    "oracle": "Oracle",
}


def begin_search(request: Request) -> str:
    """Start the requested search and return its name; raises `UserError`."""
    search.check_request(request, start_check.check_start_in_subprocess)
    search.load_optuna()
    search.start_driver(search.create_search(request, select.runs_root()))
    return request.name


# ---------------------------------------------------------------------------------------------------- form


def show_search_form() -> None:
    """Show the form, its cost, and the button."""
    errors: dict[str, str] = {}
    page_visit.restore_address("search_name")
    with fields.field_grid(_COLUMN):
        method = url_fields.choose_one(st.selectbox, "method", "Method", catalog.method_titles())
        dataset = url_fields.choose_one(st.selectbox, "dataset", "Data set", catalog.dataset_titles())
        help_text = "Number of setting combinations to try"
        trials = url_fields.whole_number_field("Trials", "search_trials", 20, search.MAX_TRIALS, help=help_text)
        help_text = "Runs per trial; their mean is the trial's value"
        seeds = url_fields.text_field("Seeds", "search_seeds", "0", help=help_text)
    texts = _ask_space(method, dataset, errors)
    fixed = _ask_fixed(method, dataset, {text.partition("=")[0] for text in texts}, errors)
    objective = _ask_objective()
    with fields.field_grid(_COLUMN):
        with st.container(gap="xxsmall"):
            prune = url_fields.switch_field("Stop poor trials early", "search_prune", True)
            fields.show_error_or_help(
                None,
                "Stops a trial if its best value so far is below the median of the finished trials at the same epoch",
            )
        help_options = {"placeholder": "Automatic", "help": "Automatic: one per slot"}
        parallel = url_fields.whole_number_field(
            "Trials at a time", "search_parallel", None, search.MAX_PARALLEL, **help_options
        )
        help_text = "Seed of the sampler"
        draw = url_fields.whole_number_field("Seed of the random draws", "search_draw", 0, 2**31 - 1, help=help_text)
        name = fields.ask_name("search", "searches", 32)
    page_visit.remember_address("search_name")
    if errors:
        return
    options = {"trials": trials, "prune": prune, "sampler_seed": draw, "parallel": parallel}
    settings = cli_args.format_settings(fixed)
    try:
        request = search.read_request(dataset, method, texts, settings, seeds, objective, name, **options)
        request = core_sharing.search_on_cores(request, select.runs_root(), settings, bool(name))
        search.check_request(request)
    except UserError as error:
        st.error(escape.sentence(error), icon=":material/edit_off:")
        return
    settings += [] if "threads" in fixed or request.base.threads is None else ["threads=1"]
    _offer_start(request, _search_command(request, settings))


def _ask_space(method: str, dataset: str, errors: dict[str, str]) -> list[str]:
    """Return NAME=VALUES of every searched setting; errors are shown beside the fields and added to `errors`."""
    st.subheader("Space", anchor=False)
    documented = {name: p for name, p in fields.settings_of_methods([method]).items() if can_be_searched(name)}
    documented = {
        name: p for name, p in documented.items() if suggested(p, fields.default_value(p, dataset, method)) is not None
    }
    usual = _DEFAULT_SPACE.get(method) or ([name for name, p in documented.items() if p.kind == "float"][:1] + ["lr"])
    options = {"placeholder": "Choose at least one"}
    selected = url_fields.choose_many(
        "Settings to search", f"search_space_{method}", fields.menu_of_settings(documented), usual, **options
    )
    texts = []
    with fields.field_grid():
        for name in selected:
            with fields.explained_field(documented[name], errors, border=True):
                texts.append(_ask_dimension(documented[name], dataset, method))
                search.read_space(texts[-1:], method)
    if not selected:
        errors["space"] = "nothing is searched"
        st.error("Choose at least one setting to search.", icon=":material/edit_off:")
    return texts


def _ask_dimension(parameter: Parameter, dataset: str, method: str) -> str:
    """Return the range and scale, or the choices, of a setting; by default a range around its default value."""
    usual = fields.default_value(parameter, dataset, method)
    suggestion = suggested(parameter, usual)
    name, key = parameter.name, f"search_{parameter.name}"
    st.markdown(f"**{escape.markdown(name)}** (default {escape.markdown(text_of(usual))})")
    if suggestion.choices:
        choices = [text_of(choice) for choice in suggestion.choices]
        selected = url_fields.choose_many("Choices", key, choices, choices, st.pills, label_visibility="collapsed")
        return f"{name}={','.join(selected)}"
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        low = url_fields.text_field("From", f"{key}_low", text_of(suggestion.low), width=90)
        high = url_fields.text_field("To", f"{key}_high", text_of(suggestion.high), width=90)
        help_text = "Logarithmic scale: values from 0.001 to 0.01 are as likely as from 0.01 to 0.1"
        log = url_fields.switch_field("Log", f"{key}_log", suggestion.log, help=help_text)
    return f"{name}={low}..{high}{':log' * log}"


def _ask_fixed(method: str, dataset: str, searched: set[str], errors: dict[str, str]) -> dict[str, str]:
    """Return the settings of all trials, as texts."""
    set_elsewhere = {*searched, "dataset", "method", "seed"}
    documented = {name: p for name, p in parameters(method).items() if name not in set_elsewhere}
    usual = ["dataset.path"] if catalog.dataset_info(dataset).path else []
    name = f"search_fixed_{method}_{dataset}"
    return fields.ask_fixed("Settings of all trials", name, "search_fix_", documented, dataset, errors, usual, _COLUMN)


def _ask_objective() -> str:
    st.subheader("Objective", anchor=False)
    captions = [OBJECTIVES[name].description for name in _TITLES]
    name = url_fields.choose_one(
        st.radio, "objective", "Objective", _TITLES, captions=captions, label_visibility="collapsed"
    )
    if OBJECTIVES[name].hidden:
        warning = "This uses the hidden labels of the unlabeled images. The result shows how good the method could be, "
        st.warning(warning + "not the accuracy that you would reach in practice.", icon=":material/visibility:")
    return name


# ---------------------------------------------------------------------------------------------------- offer


def _offer_start(request: Request, command: str) -> None:
    """Show the cost, the command, and the button."""
    notices.show_start_warnings([request.base])
    notices.show_disk_warning([request.base] * request.trials * len(request.seeds))
    notices.show_memory_warnings([request.base])
    if sharing := core_sharing.sharing_in_words([request.base], select.runs_root()):
        st.caption(f"{sharing} Set `threads` to change this.")
    if executors.available_executors():
        st.caption("The runs of a search use the queue of this machine, not a cluster.")
    export_buttons.show_command(command)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{counted(request.trials, 'trial')}** · {_cost_in_words(request)}", width="stretch")
        # Not a callback: its arguments would lack a value that was typed just before the click.
        if st.button("Start the search", key="search_start", type="primary", icon=":material/search:"):
            start_runs.request_start("search", request)
            st.rerun()


def _cost_in_words(request: Request) -> str:
    """Describe the time of all runs without early stops, and the withheld labels."""
    runs = request.trials * len(request.seeds)
    parallel = min(request.parallel or run_slots.num_parallel_runs([request.base], select.runs_root()), request.trials)
    span = search.estimate_search(request, select.runs_root())
    sentences = [f"{counted(runs, 'run')}, {parallel} at a time"]
    if span is None:
        sentences.append("time unknown because no run of this method on this data set has finished")
    else:
        rounds = costs.parallel_duration([span.times(1 / request.trials)] * request.trials, parallel)
        sentences.append(f"at most about {costs.span_in_words(rounds)}, {costs.source_in_words(rounds)}")
    if not OBJECTIVES[request.objective].hidden:
        sentences.append(f"{100 * request.base.split_validation_ratio:g} % of the labels are withheld from training")
    return "; ".join(sentences)


def _search_command(request: Request, settings: list[str]) -> str:
    """Return the equivalent command."""
    return cli_args.format_command(
        "search",
        dataset=request.base.dataset,
        method=request.base.method,
        space=[dimension.text for dimension in request.space],
        set=settings,
        seeds=cli_args.join_values(request.seeds),
        objective=request.objective,
        trials=request.trials,
        parallel=request.parallel,
        sampler_seed=request.sampler_seed or None,
        name=request.name,
        no_prune=not request.prune,
    )
