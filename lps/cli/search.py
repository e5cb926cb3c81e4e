"""Search for good settings: `search`."""

import argparse
import os

from lps.cli._parser import Commands, add_settings, add_task, print_json, print_note
from lps.errors import UserError, shorten, shown
from lps.settings import cli_args
from lps.wording import counted


def add(commands: Commands) -> None:
    help_text = "search for the best settings with Optuna; NAME alone shows a search; repeat the command to continue it"
    sub = commands.add("search", search, help_text, as_json=True)
    sub.add_argument("search", nargs="?", metavar="NAME", help="a search to show, resume or stop")
    sub.add_argument("--list", action="store_true", help="list all searches of this runs folder")
    sub.add_argument("--resume", action="store_true", help="continue NAME after a stop or a crash")
    sub.add_argument(
        "--stop", action="store_true", help="stop NAME and its runs after a checkpoint; you can resume NAME later"
    )
    add_task(sub)
    sub.add_argument(
        "--space",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="a setting to search, may be repeated: margin_scale=1..10, lr=1e-4..1e-1:log, use_margin=true,false",
    )
    add_settings(sub)
    sub.add_argument(
        "--seeds", default="0", help="seeds of every trial; the value of a trial is the mean of its runs, one per seed"
    )
    sub.add_argument(
        "--objective",
        default="balanced",
        help="what to maximise: balanced (accuracy on withheld labels of seen classes, multiplied by the evenness of "
        "the predicted class sizes), validation (accuracy on withheld labels, ignores novel classes), oracle (uses the "
        "hidden labels)",
    )
    sub.add_argument("--trials", type=int, help="total number of trials (20); a larger number extends a search")
    sub.add_argument("--parallel", type=int, help="trials at a time; default: one per slot")
    sub.add_argument(
        "--prune",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="stop trials that are worse than the median at the same epoch",
    )
    sub.add_argument("--sampler-seed", type=int, default=0, help="seed of Optuna's sampler")
    sub.add_argument("--name", default="", help="name of the search; its runs have the tag search:NAME")
    sub.add_argument("--background", action="store_true", help="run in the background; prints the name")
    sub.add_argument("--lock", type=int, help=argparse.SUPPRESS)  # descriptor of the search's lock, from a page


def search(options) -> int:
    from lps.studies import core_sharing
    from lps.studies import search as searches

    if options.list:
        return _list_searches(options)
    if options.search and not options.space:
        return _control(searches.find_search(options.runs, options.search), options)
    if options.search and options.name and options.search != options.name:
        raise UserError(
            "name", f"{shorten(options.search)} and {shorten(options.name)} are two different names for one search"
        )
    if options.stop or options.resume:
        raise UserError("search", "give only the name of a search; leave out --space")
    request = searches.read_request(
        options.dataset,
        options.method,
        options.space,
        options.settings,
        options.seeds,
        options.objective,
        options.name or options.search or "",
        trials=20 if options.trials is None else options.trials,
        prune=options.prune,
        sampler_seed=options.sampler_seed,
        parallel=options.parallel,
    )
    is_named = bool(options.name or options.search)
    request = core_sharing.search_on_cores(request, options.runs, options.settings, is_named)
    searches.load_optuna()
    searches.check_request(request)
    created = searches.create_search(request, options.runs)
    _print_request(request, options.runs)
    return _run_search(created, options)


def _control(search, options) -> int:
    """Show, stop or continue an existing search."""
    from lps.studies import search as searches
    from lps.studies import search_results

    if options.stop:
        searches.request_state(search, "stop")
        return 0
    if options.resume:
        if options.trials is not None or options.parallel is not None:
            searches.extend_search(search, options.trials, options.parallel)
        return _run_search(search, options)
    result = search_results.read_results(search)
    print_json(_as_json(result)) if options.json else _print_result(result)
    return 0


def _run_search(search, options) -> int:
    from lps.studies import search as searches
    from lps.studies import search_driver, search_results

    if options.background:
        if not searches.start_driver(search):
            print_note(f"{search.name} is already running")
        print(search.name)
        return 0
    command = cli_args.format_command("search", search.name, resume=True, runs=options.runs.resolve())
    if options.lock is not None:
        os.set_inheritable(options.lock, False)
    else:
        print_note(f"search {search.name}: runs are tagged {search.tag}; continue with: {command}")
    try:
        ending = search_driver.start_search(search, lambda line: print(line, flush=True), options.lock)
    except KeyboardInterrupt:
        print_note(f"the search was stopped; its running runs continue. To resume: {command}")
        return 130
    if options.lock is None:
        result = search_results.read_results(search)
        print_json(_as_json(result)) if options.json else _print_result(result)
    return 0 if ending == "finished" else 1


def _print_request(request, root) -> None:
    from lps.scheduler.costs import source_in_words, span_in_words
    from lps.scheduler.preflight import disk_warning, memory_warnings
    from lps.studies import core_sharing
    from lps.studies import search as searches

    objective = searches.find_objective(request.objective)
    print_note(f"{counted(request.trials, 'trial')} of {', '.join(item.text for item in request.space)}")
    print_note(f"objective {request.objective}: {objective.description}")
    if not objective.hidden:
        print_note(
            f"{100 * request.base.split_validation_ratio:g} % of the labels are withheld from training to measure it"
        )
    span = searches.estimate_search(request, root)
    if span is None:
        print_note("time unknown: no finished run of this method on this data set yet")
    else:
        print_note(f"at most about {span_in_words(span)} if one run trains at a time, {source_in_words(span)}")
    disk_note = disk_warning([request.base] * request.trials * len(request.seeds), root)
    sharing = core_sharing.sharing_in_words([request.base], root)
    for note in filter(None, (sharing, disk_note, *memory_warnings([request.base]))):
        print_note(note)


def _list_searches(options) -> int:
    from lps.studies import search as searches
    from lps.studies import search_results

    rows = []
    for listed_search in searches.list_searches(options.runs):
        try:
            result = search_results.read_results(listed_search, with_importance=False)
            rows.append(_list_row(listed_search.name, result))
        except UserError as error:
            rows.append({"name": listed_search.name, "state": "unreadable", "reason": str(error)})
    if options.json:
        print_json(rows)
        return 0
    if not rows:
        begin = "python -m lps search --space margin_scale=1..20"
        print_note(f"no searches in {shown(options.runs)}; start one with: {begin}")
    for row in rows:
        if "reason" in row:
            print(f"{row['name']:20} {row['state']:11} {row['reason']}")
            continue
        best = "" if row["best"] is None else f"best {row['best']:.4f}"
        hidden = "  oracle: uses the hidden labels" if row["uses_hidden_labels"] else ""
        print(f"{row['name']:20} {row['state']:11} {row['ended']}/{row['trials']} trials  {best}{hidden}")
    return 0


def _list_row(name: str, result) -> dict:
    fields = {"name": name, "state": result.state, "ended": result.num_ended, "trials": result.request.trials}
    fields |= {"objective": result.objective.name, "uses_hidden_labels": result.objective.hidden}
    return fields | {"best": result.best.value if result.best else None}


def _as_json(result) -> dict:
    """Return everything known of a search."""
    from lps.studies import search_results

    best = result.best
    repeat_command = search_results.sweep_command(result.request, best) if best else ""
    objective = {"name": result.objective.name, "title": result.objective.title, "words": result.objective.description}
    return {
        "name": result.request.name,
        "state": result.state,
        "objective": objective | {"uses_hidden_labels": result.objective.hidden},
        "space": [item.text for item in result.request.space],
        "seeds": list(result.request.seeds),
        "trials": [_trial(trial) for trial in result.trials],
        "asked_trials": result.request.trials,
        "best": _trial(best) | {"again": repeat_command} if best else None,
        "importance": {"shares": dict(result.importance), "from_trials": len(result.complete_trials),
                       "caution": search_results.importance_caution(result)},
    }  # fmt: skip


def _trial(trial) -> dict:
    return {"number": trial.number, "state": trial.state, "value": trial.value, "values": dict(trial.values),
            "runs": list(trial.runs), "reason": trial.reason, "steps": len(trial.scores)}  # fmt: skip


def _print_result(result) -> None:
    from lps.studies import search_results
    from lps.studies.search_driver import in_words

    counts = ", ".join(f"{result.count(state)} {state}" for state in ("complete", "pruned", "failed", "running"))
    trials = f"{result.num_ended} of {counted(result.request.trials, 'trial')}"
    print(f"{result.request.name}: {result.state}, {trials} ({counts})")
    print(f"objective {result.objective.name}: {result.objective.description}")
    for trial in result.trials:
        value = f"{trial.value:.4f}" if trial.value is not None else "      "
        mark = " <- best" if trial == result.best else ""
        reason = f"  {trial.reason}" if trial.reason else ""
        print(f"{trial.number:4} {trial.state:9} {value}  {in_words(trial.values)}{mark}{reason}")
    if result.importance:
        print("importance " + ", ".join(f"{name} {share:.0%}" for name, share in result.importance.items()))
    print(search_results.importance_caution(result))
    if result.best:
        print(f"repeat with other seeds: {search_results.sweep_command(result.request, result.best)}")
