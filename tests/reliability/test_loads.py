"""Many runs, many records, much output, many people: nothing is read twice, and nothing grows with what is old."""

import sys

import pytest

from lps.analysis import run_index
from lps.charts import event_log
from lps.charts.event_log import EventLog, thin_out
from lps.store import event_follower
from lps.store.run_folders import list_runs
from tests import sample_runs
from tests.reliability.loads import fill, print_much, write_events
from tests.reliability.soak import grown
from tests.reliability.visits import Usage, watch_together
from tests.shares import share

pytestmark = pytest.mark.slow

OPENED: list[str] = []
WATCHED: list[str] = []  # the folder whose files count


def note(event: str, arguments: tuple) -> None:
    if event == "open" and WATCHED and str(arguments[0]).startswith(WATCHED[0]):
        OPENED.append(str(arguments[0]))


@pytest.fixture(scope="module", autouse=True)
def hook():
    sys.addaudithook(note)  # for good; it notes nothing while nothing is watched


@pytest.fixture
def opened(tmp_path):
    """The files below the test's folder that were opened."""
    OPENED.clear()
    WATCHED[:] = [str(tmp_path)]
    yield OPENED
    WATCHED.clear()


@pytest.mark.timeout(900)
def test_a_thousand_runs_that_are_over_are_read_once(tmp_path, opened):
    count = len(share(range(10_000), 0, 10))
    fill(tmp_path / "runs", count)
    first = [run_index.read_run_row(run) for run in list_runs(tmp_path / "runs")]
    assert len(first) == count and {entry.state.name for entry in first} == {"finished"}
    opened.clear()
    again = [run_index.read_run_row(run) for run in list_runs(tmp_path / "runs")]
    assert again == first
    assert opened == [], "whether a file has changed can be seen without opening it"


def test_what_changes_in_a_run_that_is_over_is_read_again(tmp_path):
    run = sample_runs.make_run(tmp_path / "runs", "finished", written=2)
    assert run_index.read_run_row(run).state.name == "finished"
    run.write_meta(name="another", tags=["mine"])
    assert (run_index.read_run_row(run).name, run_index.read_run_row(run).tags) == ("another", ("mine",))
    with sample_runs.held(run):
        assert run_index.read_run_row(run).state.name == run.state().name
    (run.folder / "exit.json").unlink()
    assert run_index.read_run_row(run).state.name == "crashed"
    (run.folder / "config.json").write_text("{")
    assert run_index.read_run_row(run).state.name == "unreadable"


def test_a_long_run_is_read_in_parts_and_then_what_is_new(tmp_path, monkeypatch):
    monkeypatch.setattr(event_follower, "PART", 100_000)
    run = sample_runs.make_run(tmp_path / "runs", "queued")
    size, log = write_events(run, 40_000), EventLog(run.events)
    assert size > 50 * event_follower.PART
    past = log.read_history()
    assert past.last_epoch == 20_000 and len(past.epochs) < event_log.MAX_EVENTS
    asked, read = [], event_follower.read_events
    monkeypatch.setattr(event_follower, "read_events", lambda *a: asked.append(a[1]) or read(*a))
    write_events(run, 2, 20_001)
    assert log.read_history().last_epoch == 20_001
    assert asked == [size]


def test_a_run_that_is_thinned_shows_the_numbers_of_the_whole_one(tmp_path, monkeypatch):
    run = sample_runs.make_run(tmp_path / "runs", "queued")
    write_events(run, 40_000)
    few = EventLog(run.events).read_history()
    monkeypatch.setattr(event_log, "MAX_EVENTS", 10**9)
    monkeypatch.setattr(event_log, "MAX_MEMORY", 10**12)
    whole = EventLog(run.events).read_history()
    assert len(whole.epochs) == 20_000
    for name in few.epochs:
        assert few.column(name).to_dict().items() <= whole.column(name).to_dict().items()
    assert few.last("accuracy/all") == whole.last("accuracy/all")
    assert list(few.epochs.index[-200:]) == list(range(19_801, 20_001))
    gaps = [b - a for a, b in zip(few.epochs.index, few.epochs.index[1:])]
    assert max(gaps) <= 64 and len(few.epochs) > 500


def test_few_records_are_all_kept():
    events = [{"kind": "train", "epoch": epoch} for epoch in range(1, event_log.MAX_EVENTS + 1)]
    assert thin_out(events) is events


def test_of_much_output_both_ends_are_kept(tmp_path):
    kept, _ = print_much(tmp_path / "log.txt", 40_000_000)
    text = (tmp_path / "log.txt").read_bytes()
    assert kept <= 12_000_000 and b"the middle of this log was left out" in text
    assert text.startswith(b"the beginning\n") and text.endswith(b"the end\n")


@pytest.mark.turn(2, 3)
@pytest.mark.timeout(600)
def test_sessions_on_one_live_run_cost_no_more_with_time(tmp_path):
    usages, visits, wrong = watch_together(tmp_path, 4, 10)
    assert wrong == [] and visits >= 4
    assert usages[-1].descriptors <= usages[len(usages) // 2].descriptors + 10
    assert usages[-1].zombies == 0


def test_what_grows_is_noticed():
    flat = [Usage(100, 20, 10, 1.0, 0)] * 40
    leak = [Usage(100 + 3 * number, 20, 10, 1.0, 0) for number in range(40)]
    open_files = [Usage(100, 20 + number, 10, 1.0, 0) for number in range(40)]
    threads = [Usage(100, 20, 6 + number // 6 + number % 3, 1.0, 0) for number in range(40)]
    pages = [Usage(100, 20, 6 + (number >= 20) * (2 if number % 5 else 0), 1.0, 0) for number in range(40)]
    assert grown(flat) == grown(pages) == []
    assert grown(threads) == ["threads of the app grew from 8 to 11"]
    assert grown(leak) == ["memory of the app grew from 143.5 to 203.5"]
    assert grown(open_files)[0].startswith("descriptors of the app grew")
