"""Manage stored features: `features` lists them, `make` computes some before a run needs them, `check`, `delete`."""

import argparse
import signal
import sys
from collections import Counter
from pathlib import Path

from lps.cli._parser import Commands, Parser, add_settings, add_sharing, print_json, print_note
from lps.data import feature_store
from lps.data.feature_store import StoredEntry
from lps.errors import UserError, shown
from lps.machine import processes
from lps.machine.detached_jobs import lps_command
from lps.wording import counted, data_size, duration


def add(commands: Commands) -> None:
    top = commands.add("features", _list_stores, "list stored features and the runs that use them", as_json=True)
    actions = top.add_subparsers(dest="action", metavar="ACTION", parser_class=Parser)
    for name, act, help_text in (
        ("list", _list_stores, "list stored features and the runs that use them (the default)"),
        ("make", _make_features, "compute the features that runs with features=stored will need; prints their key"),
        ("check", _check_store, "verify stored features; damaged ones will be computed again when needed"),
        ("delete", _delete_store, "delete stored features; they will be computed again when needed"),
    ):
        sub = actions.add_parser(name, help=help_text, description=help_text, allow_abbrev=False)
        sub.set_defaults(act=act)
        if name == "list":  # without defaults, so that the options also work before the word
            sub.add_argument("--runs", type=Path, default=argparse.SUPPRESS, help="folder of the runs")
            sub.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
        if name == "make":
            sub.add_argument("--dataset", default="digits", help="see `datasets`")
            add_sharing(sub, "with the same cache folder")
            add_settings(sub, "any setting, may be repeated")
        if name in ("check", "delete"):
            sub.add_argument("key", metavar="KEY", help="key of stored features, or the end of it")


def _list_stores(options) -> None:
    """Print size, cost and number of runs of every store of this user."""
    stores, users = feature_store.list_stores(), _count_users(options.runs)
    if options.json:
        print_json([_as_json(store_entry, users[store_entry.store.key]) for store_entry in stores])
        return
    for store_entry in stores:
        print(f"{store_entry.store.key}  {'; '.join(_in_words(store_entry, users[store_entry.store.key]))}")
    if stores:
        total = sum(store_entry.bytes for store_entry in stores)
        print(f"{counted(len(stores), 'store')}, {data_size(total)} in {shown(feature_store.stores_folder())}")
    else:
        print_note(f"no features are stored in {shown(feature_store.stores_folder())}")


def _in_words(entry: StoredEntry, runs: int) -> list[str]:
    store, settings = entry.store, entry.facts.get("settings", {})
    num_complete = sum(rows == store.count for rows in entry.rows.values())
    size = settings.get("network.image_size")
    backbone = f"{settings.get('network.name', '?')} at {f'{size} pixels' if size else 'its default size'}"
    parts = [shown(str(backbone)), f"{store.count:,} pictures x {store.width}, {counted(num_complete, 'view')}"]
    parts += ["being computed"] if entry.is_written else ["unfinished"] if num_complete < len(entry.rows) else []
    cost = f" in {duration(entry.seconds)}, {1000 * entry.picture_s:.1f} ms per view" if entry.picture_s else ""
    return [*parts, f"{data_size(entry.bytes)}{cost}", f"used by {counted(runs, 'run')}"]


def _as_json(entry: StoredEntry, runs: int) -> dict:
    values = {"key": entry.store.key, "pictures": entry.store.count, "width": entry.store.width, "rows": entry.rows}
    values |= {"bytes": entry.bytes, "seconds": entry.seconds, "is_written": entry.is_written, "runs": runs}
    return values | {"settings": entry.facts.get("settings", {})}


def _count_users(root: Path) -> Counter:
    """Count the runs below `root` that trained on the features of each key."""
    from lps.store.events import read_head
    from lps.store.run_folders import list_runs

    runs_by_key = Counter()
    for run in list_runs(root):
        config = run.config_if_readable()
        if config is not None and config.features == "stored":
            keys = {str(event.get("features")) for event in read_head(run.events) if event["kind"] == "start"}
            runs_by_key.update(keys)
    return runs_by_key


def _make_features(options) -> int:
    """Compute features; Ctrl-C ends it after the present piece, and finished pieces are kept."""
    from lps.settings.config import configure, parse_settings

    for text in options.settings:
        if text.partition("=")[0].strip() in ("dataset", "features"):
            raise UserError(text.partition("=")[0].strip(), "cannot be set with --set here")
    processes.check_workers(options.workers)
    requested = {"dataset": options.dataset, "features": "stored"} | parse_settings(options.settings, "lps")
    config = configure(requested)
    from tqdm import tqdm

    from lps.data import features

    interrupts, bars = [], []

    def report(done: int, total: int) -> None:
        if not bars:
            bars.append(tqdm(unit=" views", desc="features", total=total, file=sys.stderr))
        bars[0].update(done - bars[0].n)

    before = signal.signal(signal.SIGINT, lambda *_: interrupts.append(True))
    try:
        with processes.workers(options.workers - 1, _worker_command(options, config.threads)) as workers:
            store = features.build_store(config, report, lambda: bool(interrupts), options.join or bool(workers))
            failed = sum(worker.poll() not in (None, 0, 130) for worker in workers)
    finally:
        signal.signal(signal.SIGINT, before)
        for bar in bars:
            bar.close()
    if failed:
        print_note(f"{counted(failed, 'worker')} ended early; the remaining processes did the work")
    if store is None:
        print_note("stopped; run the same command again to continue")
        return 130
    print(store.key)
    return 0


def _worker_command(options, threads: int | None) -> list[str]:
    """Return the command of a further process that computes parts of the same features."""
    settings = [text for text in options.settings if text.partition("=")[0].strip() != "threads"]
    set_words = [word for text in (*settings, f"threads={threads or 'none'}") for word in ("--set", text)]
    return lps_command("features", "make", "--join", "--dataset", options.dataset, *set_words)


def _check_store(options) -> int:
    """Verify the stored views; return 1 if one is damaged."""
    entry = _find_store(options.key)
    damaged = [view for view in entry.rows if len(entry.store.sound(view)) < len(entry.store.pieces(view))]
    print(f"damaged: {', '.join(map(shown, damaged))}" if damaged else f"{counted(len(entry.rows), 'view')} intact")
    return 1 if damaged else 0


def _delete_store(options) -> None:
    feature_store.delete_store(_find_store(options.key).store)


def _find_store(key: str) -> StoredEntry:
    """Return the only store whose key ends with `key`; raises `UserError`."""
    matches = [entry for entry in feature_store.list_stores() if entry.store.key.endswith(key)]
    if not key or len(matches) != 1:
        matched = "several stores; give more of the key" if len(matches) > 1 and key else "no store"
        raise UserError(
            "features", f"{shown(key, 60)} matches {matched}; to list all stores, run python -m lps features"
        )
    return matches[0]
