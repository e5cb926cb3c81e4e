"""The incremental reader: only new bytes, whole lines, whatever happens to the file; and what records become."""

import json
import threading

import numpy as np
import pandas as pd
import pytest

from lps.charts import line_charts
from lps.charts.event_log import EventLog, History
from lps.charts.palette import LIGHT
from lps.settings.config import configure
from lps.store import event_follower
from lps.store.events import read_history, read_last_event
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.ui.shared import history
from tests.sample_runs import make_damaged, make_run


def line(kind="eval", epoch=1, **values) -> bytes:
    return (
        json.dumps({"kind": kind, "step": epoch, "epoch": epoch, "time": 1000.0 + epoch, "values": values}).encode()
        + b"\n"
    )


def write_after(path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


def test_a_missing_file_is_an_empty_history(path):
    past = EventLog(path).read_history()
    assert (past.last_epoch, past.last_time, past.seen, len(past.epochs)) == (0, None, 0, 0)
    assert past.last("kl") is None
    assert past.vector("pi_hat", 1) is None


def test_nothing_new_gives_the_same_object(path):
    path.write_bytes(line(kl=0.5))
    log = EventLog(path)
    assert log.read_history() is log.read_history()


def test_only_new_bytes_are_read(path, monkeypatch):
    path.write_bytes(line(kl=0.5))
    offsets = []
    original = event_follower.read_events
    monkeypatch.setattr(
        event_follower, "read_events", lambda p, offset, most: offsets.append(offset) or original(p, offset, most)
    )
    log = EventLog(path)
    log.read_history()
    first = path.stat().st_size
    log.read_history()
    with open(path, "ab") as file:
        file.write(line(epoch=2, kl=0.25))
    past = log.read_history()
    assert offsets == [0, first]
    assert past.column("kl").to_dict() == {1: 0.5, 2: 0.25}


@pytest.mark.slow
def test_a_torn_line_waits_for_its_end_at_every_byte(path):
    whole, later = line(epoch=1, kl=0.5), line(epoch=2, kl=0.25)
    for cut in range(len(later)):
        path.write_bytes(whole + later[:cut])
        log = EventLog(path)
        assert log.read_history().column("kl").to_dict() == {1: 0.5}
        with open(path, "ab") as file:
            file.write(later[cut:])
        assert log.read_history().column("kl").to_dict() == {1: 0.5, 2: 0.25}


def test_a_shorter_or_replaced_or_vanished_file_is_read_anew(path, tmp_path):
    path.write_bytes(line(epoch=1, kl=0.5) + line(epoch=2, kl=0.25))
    log = EventLog(path)
    before = log.read_history()
    path.write_bytes(line(epoch=1, kl=0.75))
    shrunk = log.read_history()
    assert shrunk.column("kl").to_dict() == {1: 0.75}
    assert shrunk.version > before.version
    other = tmp_path / "other"
    other.write_bytes(line(epoch=1, kl=0.125) * 3)
    other.replace(path)
    assert log.read_history().column("kl").to_dict() == {1: 0.125}
    path.write_bytes(line(epoch=1, kl=0.875) * 3)  # rewritten in place, of the same size
    assert log.read_history().column("kl").to_dict() == {1: 0.875}
    path.write_bytes(line(epoch=1, kl=0.375) * 4)  # longer
    assert log.read_history().column("kl").to_dict() == {1: 0.375}
    path.unlink()
    assert len(log.read_history().epochs) == 0


def test_damaged_lines_are_left_out(path):
    damaged = [
        b"\xff\xfe\n",
        b"[]\n",
        b'{"kind": "eval"}\n',
        b"\n",
        line(kl=None, accuracy="high", pi_hat=["a"], epoch=2),
    ]
    path.write_bytes(line(kl=0.5) + b"".join(damaged) + b'{"kind":"eval","step":1,"epoch":NaN,"time":1,"values":{}}\n')
    past = EventLog(path).read_history()
    assert past.column("kl").to_dict() == {1: 0.5}
    assert "accuracy" not in past.epochs
    assert past.vectors == {}


def test_a_resumed_attempt_replaces_later_epochs(path):
    path.write_bytes(line("start", 0, **{"classes/seen": 5}) + b"".join(line(epoch=e, kl=float(e)) for e in (1, 2, 3)))
    log = EventLog(path)
    assert log.read_history().last_epoch == 3
    with open(path, "ab") as file:
        file.write(line("start", 1) + line(epoch=2, kl=20.0))
    past = log.read_history()
    assert past.column("kl").to_dict() == {1: 1.0, 2: 20.0}
    assert past.seen == 5  # what the first attempt said


def test_train_and_eval_of_an_epoch_share_a_row_and_null_is_missing(path):
    path.write_bytes(
        line("train", 1, kl=0.5, pi_hat=[0.5, None]) + line("eval", 1, **{"accuracy/all": None, "kl": 0.5})
    )
    past = EventLog(path).read_history()
    assert len(past.epochs) == 1
    assert past.last("accuracy/all") is None
    assert np.array_equal(past.vector("pi_hat", 1), [0.5, np.nan], equal_nan=True)


def test_vectors_of_another_length_are_left_out(path):
    path.write_bytes(line(epoch=1, margin=[1, 2, 3]) + line(epoch=2, margin=[1, 2]))
    past = EventLog(path).read_history()
    assert past.vector("margin", 1) is None
    assert past.vector("margin", 2).tolist() == [1, 2]


def test_many_readers_of_one_growing_file_agree(path):
    log, lengths = EventLog(path), []

    def read():
        seen = [len(log.read_history().epochs) for _ in range(200)]
        lengths.append(seen == sorted(seen))

    path.touch()
    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    with open(path, "ab", buffering=0) as file:
        for epoch in range(1, 101):
            file.write(line(epoch=epoch, kl=1.0))
    for reader in readers:
        reader.join()
    assert lengths == [True] * 4
    assert log.read_history().last_epoch == 100


def test_a_sample_run_has_what_the_page_shows(tmp_path):
    past = history.read_history(make_run(tmp_path))
    assert (past.seen, past.last_epoch, len(past.pretrain)) == (5, 20, 20)
    assert past.last("accuracy/gap") == pytest.approx(past.last("accuracy/seen") - past.last("accuracy/novel"))
    assert past.vector("pi_hat", 20).sum() == pytest.approx(1, abs=1e-5)
    assert history.read_history(make_damaged(tmp_path)).last_epoch == 20, "of a damaged run the good records"


def test_log_tail(tmp_path):
    run = Run(tmp_path)
    assert history.read_log_tail(run) == ""
    run.log.write_bytes(b"first\n 10%\r 50%\r100%\n\xff\x00 end\n")
    assert history.read_log_tail(run).splitlines() == ["first", "100%", "\ufffd\ufffd end"]
    run.log.write_bytes(b"x" * 50 + b"\n" + b"last\n")
    assert history.read_log_tail(run, 20) == "last\n"


@pytest.mark.parametrize(
    "direction, shown", [("est_to_uniform", (2.0, 1.0, 1.0)), ("uniform_to_est", (1.0, 2.0, None))]
)
def test_kl_is_one_measure_whatever_the_margin_used_and_in_runs_of_earlier_versions(tmp_path, direction, shown):
    """In events of earlier versions `kl` is the margin's own, here 1, and `kl/reverse` the other, here 2."""
    run = create_run(tmp_path, configure({"kl_direction": direction}))
    write_after(run.events, line("train", 1, kl=1.0, **{"kl/reverse": 2.0}))
    past = EventLog(run.events).read_history()
    assert (past.last("kl"), past.last("kl/reverse"), past.last("kl/margin")) == shown
    assert [event["values"]["kl"] for event in read_history(run.events)] == [shown[0]]
    assert read_last_event(run.events)["values"]["kl"] == shown[0]
    write_after(run.events, line("train", 2, kl=3.0, **{"kl/reverse": 4.0, "kl/margin": 4.0}))
    assert EventLog(run.events).read_history().last("kl") == 3  # as it is told now
    orca = create_run(tmp_path, configure({"method": "orca"}))
    write_after(orca.events, line("train", 1, kl=1.0, **{"kl/reverse": 2.0}))
    assert EventLog(orca.events).read_history().last("kl") == 1


def test_the_kl_of_a_margin_is_drawn_beside_where_it_is_another_one():
    def names(**values):
        past = History(epochs=pd.DataFrame(values, index=[1, 2]))
        return [
            trace.name
            for trace in line_charts.pace(past, 2, LIGHT).figure().data
            if trace.name and trace.name.startswith("KL")
        ]

    assert names(**{"kl": [1.0, 0.5], "kl/margin": [1.0, 0.5]}) == names(kl=[1.0, 0.5]) == ["KL(prior, estimate)"]
    assert len(names(**{"kl": [1.0, 0.5], "kl/margin": [0.9, 0.4]})) == 2
