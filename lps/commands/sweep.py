"""Many runs at once: `sweep`."""

import argparse
from dataclasses import asdict

from lps.commands import Commands, print_json, say
from lps.config import Config


def add(commands: Commands) -> None:
    _add_layout(commands.add("sweep", sweep, "many runs in the background; prints their folders", as_json=True))


def _add_layout(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--dataset", default="digits", help="one or several, comma-separated")
    sub.add_argument("--method", default="lps", help="one or several, comma-separated, or all")
    sub.add_argument("--seeds", default="0", help="seeds of every combination, comma-separated")
    sub.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings", help="for all runs")
    sub.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="NAME=V1,V2",
        dest="varied",
        help="values to try, as often as needed; V1|V2 where values hold commas",
    )
    sub.add_argument("--mode", default="grid", help="grid: all combinations; list: k-th values together; random")
    sub.add_argument("--samples", type=int, help="how many combinations --mode random draws")
    sub.add_argument("--sample-seed", type=int, default=0, help="seed of the drawing")
    sub.add_argument("--name", default="", help="name of the sweep; its runs carry the tag sweep:NAME")
    sub.add_argument("--dry-run", action="store_true", help="only say what would be run")
    sub.add_argument("--wait", action="store_true", help="until all are over; Ctrl-C leaves them going")


def sweep(options) -> int:
    from lps import start_check, sweeps

    how = {"mode": options.mode, "samples": options.samples, "sample_seed": options.sample_seed}
    texts = (options.dataset, options.method, options.seeds, options.settings, options.varied)
    wanted = sweeps.plan(sweeps.read_layout(*texts, **how), options.runs, options.name)
    for config in {(item.config.dataset, _start_of(item.config)): item.config for item in wanted.items}.values():
        start_check.check(config)
    estimate = sweeps.estimate(wanted, options.runs)
    say(_sweep_in_words(wanted, estimate))
    code = 0
    if not options.dry_run:
        wanted = sweeps.start(wanted, options.runs)
        code = _await(wanted.items) if options.wait else 0
    if options.json:
        items = [_item_as_json(item) for item in wanted.items]
        print_json({"name": wanted.name, "tag": wanted.tag, "estimate": asdict(estimate), "runs": items})
        return code
    for item in wanted.items:
        known = f"  {item.run.id}, {item.state.name}" if item.run else ""
        print(f"{item.action:8} {item.label}{known}" if options.dry_run else item.run.folder)
    return code


def _start_of(config: Config) -> tuple:
    return tuple(value for key, value in config.flat().items() if key.startswith("network."))


def _sweep_in_words(wanted, estimate) -> str:
    """Two lines: how many runs there are and what becomes of them; what they will cost."""
    from lps.costs import in_words, size_in_words

    counts = ", ".join(f"{wanted.count(a)} {a}" for a in ("new", "exists", "resumed") if wanted.count(a))
    lines = [f"{wanted.tag}: {len(wanted.items)} runs ({counts})"]
    known = estimate.runs - estimate.missing
    if known:
        cost = f"about {in_words(estimate.seconds)} one after another and {size_in_words(estimate.bytes)}"
        lines.append(f"{known} of {estimate.runs} to do: {cost}, by finished runs")
    if estimate.missing:
        lines.append(f"time and disk unknown: no finished run of {', '.join(estimate.unknown)} yet")
    return "\n".join(lines)


def _await(items) -> int:
    """Say how every run ended as it ends; 1 where one did not finish, 130 after Ctrl-C."""
    from lps import sweeps
    from lps.summary import summarize

    ended = []
    try:
        for item in sweeps.watch(items):
            ended.append(item)
            score = summarize(item.run)["last"].get("accuracy/all")
            words = f", all {score:.2f}" if isinstance(score, float) else ""
            reason = f": {item.state.reason}" if item.state.reason else ""
            say(f"[{len(ended)}/{len(items)}] {item.label}: {item.state.name}{reason}{words}")
    except KeyboardInterrupt:
        say(f"not waiting any more; {len(items) - len(ended)} runs go on or wait for their turn (see list, stop)")
        return 130
    return 1 if any(item.state.name != "finished" for item in ended) else 0


def _item_as_json(item) -> dict:
    run = {"run": str(item.run.folder), "state": item.run.state().name} if item.run else {"run": None, "state": None}
    return {"label": item.label, "action": item.action, **run, "config": item.config.flat()}
