"""Histories, summaries and the newest records: the same as by reading everything, at the cost of what is new."""

import json
import random
import tracemalloc
from functools import partial

import pytest

from lps.cli import run_commands
from lps.interop import event_tables
from lps.store import events, summary
from lps.store import events_tail as recent
from lps.store.events import drop_repeated, read_events, read_history
from lps.store.events_tail import EPOCHS, read_recent
from lps.store.runs import Run
from lps.store.summary import CRITERIA, Summary, criterion, summarize
from tests import sample_runs
from tests.shares import OFFSET, share

HOSTILE = [b"\x00\xff not json\n", b'{"kind": "start"\n', b"[1, 2]\n", b"\n", b'{"kind":"start","step":-1,"epoch":0}\n']


def line(kind, epoch, time=0.0, **values):
    told = {"kind": kind, "step": 10 * epoch, "epoch": epoch, "time": time, "values": values}
    return json.dumps(told, separators=random.Random(epoch).choice([(",", ":"), (", ", ": ")])).encode() + b"\n"


def story(seed, length):
    """Lines of a run that is resumed again and again, from any epoch, pretraining included; some are damaged."""
    draws, epoch, lines = random.Random(seed), 0, []
    for number in range(length):
        kind = draws.choices(["start", "pretrain", "train", "eval", "stop", "damage"], [2, 3, 8, 8, 1, 1])[0]
        epoch = draws.randint(0, epoch) if kind == "start" else draws.randint(epoch, epoch + 1)
        score = draws.choice([None, draws.randint(0, 5) / 5])
        values = {
            "start": {"classes/seen": 5},
            "pretrain": {"pretrain/loss": number} | draws.choice([{}, {"pretrain/reused": 1}]),
            "train": {"loss/total": number},
            "eval": {"accuracy/all": score, draws.choice(CRITERIA): draws.random(), f"rare/{draws.randint(0, 9)}": 1},
        }
        told = draws.choice(HOSTILE) if kind == "damage" else line(kind, epoch, number, **values.get(kind, {}))
        lines.append(told)
    return lines


def naive(path):
    """The summary by holding everything."""
    history, last = drop_repeated(read_events(path)[0]), {}
    for event in history:
        last |= event["values"]
    evaluations = [event for event in history if event["kind"] == "eval"]
    by = criterion(evaluations[-1]["values"] if evaluations else {})
    scored = [event for event in evaluations if isinstance(event["values"].get(by), (int, float))]
    best = max(scored, key=lambda event: event["values"][by], default=None)
    return {
        "last": last,
        "best": best["values"] | {"epoch": best["epoch"]} if best else {},
        "best_by": by if best else "",
        "epochs": max((event["epoch"] for event in evaluations), default=0),
    }


@pytest.fixture
def parsed(monkeypatch):
    """The lines that were parsed."""
    lines, parse = [], events.parse_event
    for module in (events, recent):
        monkeypatch.setattr(module, "parse_event", lambda line: lines.extend([line][: len(line)]) or parse(line))
    return lines


@pytest.mark.parametrize("seed", share(range(60), OFFSET, 4))
def test_a_history_is_what_rewinding_everything_leaves(tmp_path, seed):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(story(seed, 80)) + b'{"kind":"start","step":0,"epoch":0,"ti')
    assert list(read_history(path)) == drop_repeated(read_events(path)[0])


def test_the_stories_have_what_makes_records_void(tmp_path):
    path, void = tmp_path / "events.jsonl", set()
    for seed in range(60):
        path.write_bytes(b"".join(story(seed, 80)))
        everything = read_events(path)[0]
        kept = [event["time"] for event in drop_repeated(everything)]
        void |= {event["kind"] for event in everything if event["time"] not in kept}
    assert void == {"pretrain", "train", "eval", "stop"}


def test_a_history_of_no_file_is_empty(tmp_path):
    assert list(read_history(tmp_path / "none")) == list(read_history(tmp_path)) == []
    (tmp_path / "empty").touch()
    assert list(read_history(tmp_path / "empty")) == []


def test_a_history_ends_where_it_was_asked_to(tmp_path):
    path, lines = tmp_path / "events.jsonl", [line("eval", epoch) for epoch in range(1, 6)]
    path.write_bytes(b"".join([*lines, line("start", 0)]))
    assert [event["epoch"] for event in read_history(path, len(b"".join(lines)))] == [1, 2, 3, 4, 5]
    assert [event["kind"] for event in read_history(path)] == ["start"]


@pytest.mark.parametrize("seed", share(range(40), OFFSET, 4))
def test_a_summary_that_is_asked_again_is_that_of_the_whole(tmp_path, seed):
    draws, path = random.Random(seed), tmp_path / "events.jsonl"
    data, follower = b"".join(story(seed, 80)), Summary(path)
    assert follower.read() == naive(path)
    cuts = sorted(draws.randint(0, len(data)) for _ in range(8))
    for cut in (*cuts, len(data)):  # also in the middle of lines
        path.write_bytes(data[:cut])
        told = follower.read()
        assert told == naive(path) and list(told["last"]) == list(naive(path)["last"])


def test_what_a_caller_does_to_a_summary_stays_there(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(line("eval", 1, **{"accuracy/all": 0.5}))
    told = Summary(path)
    told.read()["last"].clear()
    told.read()["best"].clear()
    assert told.read() == naive(path)


def test_another_file_in_the_place_is_read_from_its_beginning(tmp_path):
    path = tmp_path / "events.jsonl"
    first = [line("eval", epoch, **{"accuracy/all": 0.9}) for epoch in range(1, 20)]
    follower = Summary(path)

    def tell(lines, replace=False):
        if replace:
            path.unlink()
        path.write_bytes(b"".join(lines))
        assert follower.read() == naive(path)
        return follower.read()["last"]

    assert tell(first) == {"accuracy/all": 0.9}
    other = [told.replace(b"0.9", b"0.8") for told in first]
    assert tell(other) == {"accuracy/all": 0.8}, "rewritten in place, of the same size"
    assert tell([told.replace(b"0.8", b"0.7") for told in first] + first) == {"accuracy/all": 0.9}, "longer"
    assert tell(other[:3]) == {"accuracy/all": 0.8}, "shorter"
    assert tell(first, replace=True) == {"accuracy/all": 0.9}, "a new file"
    path.unlink()
    assert follower.read() == naive(path) and follower.read()["epochs"] == 0


def test_asked_again_a_summary_reads_what_is_new(tmp_path, parsed):
    run = Run(tmp_path)
    run.events.write_bytes(b"".join(line("eval", epoch, **{"accuracy/all": 0.5}) for epoch in range(1, 2001)))
    assert summarize(run)["epochs"] == 2000 and len(parsed) == 2000
    parsed.clear()
    assert summarize(run)["epochs"] == 2000 and parsed == []
    with run.events.open("ab") as file:
        file.write(line("start", 2000) + line("eval", 2001, **{"accuracy/all": 0.6}) + b'{"kind":"ev')
    assert summarize(run)["best"]["epoch"] == 2001 and len(parsed) == 2
    parsed.clear()
    with run.events.open("ab") as file:
        file.write(b"\n" + line("start", 100))
    assert summarize(run)["epochs"] == 100 and len(parsed) > 2000, "what is void is in the sums: from the beginning"


def peak(act):
    tracemalloc.start()
    act()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "read",
    [
        lambda run: Summary(run.events).read(),
        lambda run: sum(1 for _ in event_tables.long_rows(run)),
        lambda run: sum(1 for _ in event_tables.wide_rows(run)),
        lambda run: event_tables.scalar_names([run]),
    ],
    ids=["summary", "long", "wide", "names"],
)
def test_memory_does_not_grow_with_the_records(tmp_path, read):
    held = []
    for count in (500, 500, 4000):  # the first warms up
        run = Run(tmp_path / f"{len(held)}")
        run.folder.mkdir()
        run.events.write_bytes(b"".join(line("eval", 1 + n, a=0.1, b=[0.5] * 5) for n in range(count)))
        held.append(peak(partial(read, run)))
    assert held[2] < held[1] + 100_000 < 8 * held[1]
    everything = peak(lambda: drop_repeated(read_events(run.events)[0]))
    assert everything > held[1] + 1_000_000, "the control holds all"


@pytest.mark.parametrize("window", [1, 100, 3 << 13])
@pytest.mark.parametrize("seed", share(range(20), OFFSET, 4))
def test_the_newest_records_are_those_of_the_whole(tmp_path, monkeypatch, seed, window):
    monkeypatch.setattr(events, "FIRST_WINDOW", window)
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(story(seed, 80)) + b'{"kind":"eval","step"')
    whole, found = drop_repeated(read_events(path)[0]), read_recent(path)
    evaluations = [(event["epoch"], event["values"]) for event in whole if event["kind"] == "eval"]
    assert list(found.evaluations) == evaluations[-EPOCHS:]
    assert found.newest_values.items() <= naive(path)["last"].items()
    assert found.time == whole[-1]["time"]
    trained = [event["values"] for event in whole if event["kind"] == "train"]
    assert found.training in (trained[-1] if trained else {}, {})
    one = read_recent(path, epochs=1)
    assert one.number("accuracy/all") == found.number("accuracy/all")
    assert [epoch for epoch, _ in one.evaluations] == [epoch for epoch, _ in evaluations[-1:]]


def test_of_a_long_run_few_lines_are_parsed(tmp_path, parsed):
    run = sample_runs.make_run(tmp_path / "runs", "finished")
    parsed.clear()
    assert len(read_recent(run.events).evaluations) == EPOCHS
    assert len(parsed) <= EPOCHS + 2, "the evaluations, one training record, the end"


def test_the_list_looks_at_the_end_of_every_run(tmp_path, parsed, capsys, monkeypatch):
    monkeypatch.setattr("lps.scheduler.launcher.dispatch", lambda root: [])  # one of the runs is to begin
    runs = [sample_runs.make_run(tmp_path / "runs", state) for state in ("finished", "stopped", "failed", "queued")]
    told = {run.id: naive(run.events) for run in runs}
    parsed.clear()
    run_commands.list_all(
        type("Options", (), {"recorded": False, "runs": tmp_path / "runs", "json": True, "filter": ""})
    )
    for row in json.loads(capsys.readouterr().out):
        assert row["epochs"] == told[row["id"]]["epochs"]
        for name in ("seen", "novel", "all"):
            assert row[name] == told[row["id"]]["last"].get(f"accuracy/{name}")
    assert len(parsed) <= 3 * len(runs)


def test_a_place_without_records_has_none(tmp_path):
    assert read_recent(tmp_path / "none") == read_recent(tmp_path) == recent.RecentEvents()
    assert summary.summarize(Run(tmp_path)) == {"last": {}, "best": {}, "best_by": "", "epochs": 0}
