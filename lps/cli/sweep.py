"""Start many runs: `sweep`."""

import argparse
from dataclasses import asdict

from lps.cli._parser import Commands, add_place, add_settings, print_json, print_note, target_options
from lps.errors import UserError, shown
from lps.wording import counted, data_size


def add(commands: Commands) -> None:
    _add_layout(commands.add("sweep", sweep, "start many runs in the background; prints their folders", as_json=True))


def _add_layout(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--preset", help="a table or curve of the paper instead of your own plan; see --list-presets")
    sub.add_argument(
        "--scale",
        help="scale of a preset: demo (digits, the default) or paper (the paper's data sets; needs a GPU and days)",
    )
    sub.add_argument("--list-presets", action="store_true", help="list the presets and their numbers of runs")
    sub.add_argument("--dataset", help="one or more, comma-separated; with --preset, the preset runs only on these")
    sub.add_argument("--method", help="one or more, comma-separated, or all")
    sub.add_argument("--seeds", help="seeds of every combination, comma-separated; default: 0, or 0,1,2 with --preset")
    add_settings(sub)
    sub.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="NAME=V1,V2",
        dest="varied",
        help="values to try, may be repeated; V1|V2 if values contain commas",
    )
    sub.add_argument("--mode", default="grid", help="grid: all combinations; list: k-th values together; random")
    sub.add_argument("--samples", type=int, help="number of combinations for --mode random")
    sub.add_argument("--sample-seed", type=int, default=0, help="seed of the random draw")
    sub.add_argument("--name", default="", help="name of the sweep; its runs have the tag sweep:NAME")
    sub.add_argument("--dry-run", action="store_true", help="only print what would be started")
    sub.add_argument("--retries", type=int, metavar="N", help="restart a crashed run up to N times (0 to 3)")
    sub.add_argument("--wait", action="store_true", help="wait until all runs end; Ctrl-C does not stop them")
    add_place(sub)


def sweep(options) -> int:
    from lps.scheduler import launcher

    launcher.check_request(options.retries, None)
    from lps.studies import core_sharing, sweeps

    if options.list_presets:
        return _list_presets(options.json)
    request, name, on = _request(options), options.name, target_options(options)
    launcher.check_request(options.retries, None, on)
    request, name = core_sharing.sweep_on_cores(request, options.runs, name, on is None)
    planned = sweeps.plan_unchecked_sweep(request, options.runs, name)
    if options.dry_run:
        return _print_plan(planned, options, on)
    _check_start([item.config for item in planned.items], on_this_machine=on is None)
    estimate = sweeps.estimate_sweep(planned, options.runs)
    print_note(_sweep_in_words(planned, estimate, options.runs, on))
    _print_resource_notes(planned, options, on_this_machine=on is None)
    planned = sweeps.start_sweep(planned, options.runs, retries=options.retries, on=on)
    code = _wait_for_items(planned.items) if options.wait else 0
    if options.json:
        print_json(_as_json(planned, estimate))
        return code
    for item in planned.items:
        print(item.run.folder)
    return code


def _print_plan(planned, options, on) -> int:
    """Print what would be started, then check what prevents it."""
    from lps.studies import sweeps

    estimate = sweeps.estimate_sweep(planned, options.runs)
    print_note(_sweep_in_words(planned, estimate, options.runs, on))
    if options.json:
        print_json(_as_json(planned, estimate))
    for item in () if options.json else planned.items:
        print(f"{item.action:8} {item.label}" + (f"  {item.run.id}, {item.state.name}" if item.run else ""))
    _check_start([item.config for item in planned.items], on_this_machine=on is None)
    _print_resource_notes(planned, options, on_this_machine=on is None)
    return 0


def _print_resource_notes(planned, options, on_this_machine: bool) -> None:
    """Print what the settings or the data make doubtful, for which the disk may be too small, and the GPUs here."""
    from lps.scheduler.preflight import disk_warning, memory_warnings, start_warnings

    configs = [item.config for item in planned.items if item.action != "exists"]
    notes = [*start_warnings(*configs), disk_warning(configs, options.runs)]
    for note in filter(None, [*notes, *(memory_warnings(configs) if on_this_machine else ())]):
        print_note(note)


def _check_start(configs, on_this_machine: bool = True) -> None:
    """Check all requirements before a run folder is created; raises `UserError`."""
    from lps.scheduler import start_check
    from lps.studies import sweeps

    sweeps.check_sweep(configs, on_this_machine, start_check.check_start)


def _as_json(planned, estimate) -> dict:
    runs = [_item_as_json(item) for item in planned.items]
    return {"name": planned.name, "tag": planned.tag, "estimate": asdict(estimate), "runs": runs}


def _request(options):
    """Return the layout or the preset of the options."""
    from lps.studies import presets, sweep_layout

    if options.preset is None:
        if options.scale is not None:
            raise UserError("scale", "needs a preset; choose one with --preset")
        sampling = {"mode": options.mode, "samples": options.samples, "sample_seed": options.sample_seed}
        texts = (options.dataset or "digits", options.method or "lps", "0" if options.seeds is None else options.seeds)
        return sweep_layout.read_layout(*texts, options.settings, options.varied, **sampling)
    options_given = {"--method": options.method, "--vary": options.varied, "--samples": options.samples}
    for name in (name for name, value in options_given.items() if value):
        raise UserError(
            name, f"cannot be combined with --preset: {shown(options.preset, 60)} defines its own variations"
        )
    seeds = presets.SEEDS if options.seeds is None else sweep_layout.read_layout("digits", "lps", options.seeds).seeds
    datasets = tuple(word.strip() for word in options.dataset.split(",")) if options.dataset else ()
    fixed = sweep_layout.parse_assignments(options.settings)
    return presets.PresetRequest(options.preset, options.scale or "demo", seeds, datasets, fixed)


def _list_presets(as_json: bool) -> int:
    from lps.studies import presets

    rows = []
    for preset in presets.PRESETS.values():
        row = {"name": preset.name, "title": preset.title, "place": preset.paper_location}
        try:
            request_by_scale = {scale: presets.PresetRequest(preset.name, scale) for scale in presets.SCALES}
            tables = {scale: presets.build_paper_table(request) for scale, request in request_by_scale.items()}
            rows.append(row | {"runs": {scale: len(table.labeled_configs()) for scale, table in tables.items()}})
        except UserError as error:  # the file of one of its methods or data sets is broken
            rows.append(row | {"broken": str(error)})
    if as_json:
        print_json(rows)
        return 0
    for row in rows:
        counts = ", ".join(f"{count} runs at {scale} scale" for scale, count in row.get("runs", {}).items())
        print(f"{row['name']:13} {row['title']} ({row['place']}): {counts or 'broken: ' + row['broken']}")
    return 0


def _sweep_in_words(planned, estimate, root, on) -> str:
    """Describe the runs of a sweep by action, those that stay where they wait, and their cost."""
    from lps.scheduler.costs import source_in_words, span_in_words
    from lps.studies import core_sharing, sweep_layout
    from lps.studies.sweeps import from_record, staying_in_words

    counts = ", ".join(f"{planned.count(a)} {a}" for a in ("new", "exists", "resumed") if planned.count(a))
    lines = [f"{planned.tag}: {counted(len(planned.items), 'run')} ({counts})"]
    lines += [staying] if (staying := staying_in_words(planned.items, on)) else []
    request = from_record(planned.request)
    lines += sweep_layout.redundant_requests(request) if isinstance(request, sweep_layout.SweepSpec) else []
    num_known = estimate.runs - estimate.missing
    if num_known:
        cost = f"about {span_in_words(estimate.span)} one after another and {data_size(estimate.bytes)}"
        part = f"{num_known} of the {estimate.runs} runs: " if estimate.missing else ""
        lines.append(f"{part}{cost}, {source_in_words(estimate.span)}")
    if estimate.missing:
        lines.append(f"time and disk unknown: no finished run of {', '.join(estimate.unknown)} yet")
    new_configs = [item.config for item in planned.items if item.action != "exists"] if on is None else []
    lines += [sharing] if (sharing := core_sharing.sharing_in_words(new_configs, root)) else []
    return "\n".join(lines)


def _wait_for_items(items) -> int:
    """Print how every run ends; return 1 if one did not finish, 130 after Ctrl-C."""
    from lps.store.summary import summarize
    from lps.studies import sweeps

    ended_runs = []
    try:
        for item in sweeps.watch_items(items):
            ended_runs.append(item)
            score = summarize(item.run)["last"].get("accuracy/all")
            score_text = f", all {score:.2f}" if isinstance(score, float) else ""
            reason = f": {item.state.reason}" if item.state.reason else ""
            print_note(f"[{len(ended_runs)}/{len(items)}] {item.label}: {item.state.name}{reason}{score_text}")
    except KeyboardInterrupt:
        left = counted(len(items) - len(ended_runs), "run")
        print_note(f"stopped waiting; still running or in the queue: {left}; `python -m lps list` shows them")
        return 130
    return 1 if any(item.state.name != "finished" for item in ended_runs) else 0


def _item_as_json(item) -> dict:
    run = {"run": str(item.run.folder), "state": item.run.state().name} if item.run else {"run": None, "state": None}
    return {"label": item.label, "action": item.action, **run, "config": item.config.flat()}
