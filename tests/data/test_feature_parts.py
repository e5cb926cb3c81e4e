"""A store that several processes make: every part once, that of a killed one again, the same bytes as ever."""

import os
import signal
import time
from pathlib import Path

import pytest

from lps.data import feature_parts, feature_store
from lps.files import shared_work
from tests.data.store_faults import COUNT, VIEWS, WIDTH, content, is_right
from tests.patience import until

PIECES = {(view, start) for view in VIEWS for start in (0, 256, 512)}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(feature_parts, "_PART", 512)
    monkeypatch.setattr(shared_work, "_POLL_S", 0.05)


def make_together(log: Path, pause_s: float = 0.0, die_at: int = 0, should_stop=lambda: False):
    """The store; every piece that is computed here becomes a line. die_at: the piece, from 1, within which it dies."""
    asked = []

    def compute(view: str, start: int, stop: int) -> bytes:
        asked.append((view, start))
        with open(log, "a") as file:
            file.write(f"{view} {start}\n")
        if len(asked) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(pause_s)
        return content(view, start, stop)

    return feature_parts.complete_store_together(
        "a", COUNT, VIEWS, lambda: (WIDTH, {"settings": {}}, compute), lambda done, total: None, should_stop
    )


def in_child(log: Path, **more) -> int:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if is_right(make_together(log, **more)) else 1)
        except BaseException:
            os._exit(2)
    return child


def pieces(log: Path) -> list[tuple[str, int]]:
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return [(view, int(start)) for view, start in map(str.split, lines)]


@pytest.mark.slow
def test_two_processes_share_the_parts_and_both_get_the_store(tmp_path):
    logs = [tmp_path / "first", tmp_path / "second"]
    children = [in_child(log, pause_s=0.2) for log in logs]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    both = [pieces(log) for log in logs]
    assert sorted(both[0] + both[1]) == sorted(PIECES)
    assert all(both)
    assert not list(feature_store.stores_folder().glob("*.parts"))
    assert is_right(feature_store.open_store("a", VIEWS))


def test_the_part_of_a_killed_process_is_taken_again_from_its_last_piece(tmp_path):
    killed = in_child(tmp_path / "killed", die_at=2)  # within the first part, whose first piece counts
    assert os.waitpid(killed, 0)[1] == signal.SIGKILL
    assert pieces(tmp_path / "killed") == [("plain", 0), ("plain", 256)]
    store = make_together(tmp_path / "other")
    assert is_right(store) and sorted(pieces(tmp_path / "other")) == sorted(PIECES - {("plain", 0)})


@pytest.mark.slow
def test_who_waits_for_a_part_takes_it_when_its_process_dies(tmp_path):
    other = in_child(tmp_path / "other", pause_s=60)
    until(lambda: pieces(tmp_path / "other") == [("plain", 0)])
    looks = []

    def should_stop() -> bool:
        looks.append(0)
        if len(looks) == 20:  # all other parts are done by now
            os.kill(other, signal.SIGKILL)
            os.waitpid(other, 0)
        return False

    assert is_right(make_together(tmp_path / "ours", should_stop=should_stop))
    ours = pieces(tmp_path / "ours")
    assert sorted(ours) == sorted(PIECES) and ours[-2:] == [("plain", 0), ("plain", 256)]


def test_a_stop_keeps_what_is_done_and_damage_is_computed_again(tmp_path):
    log, looks = tmp_path / "log", []
    assert make_together(log, should_stop=lambda: bool(looks.append(0)) or len(looks) > 3) is None
    done = pieces(log)
    assert done == [("plain", 0), ("plain", 256), ("plain", 512)][: len(done)] and len(done) >= 2
    part = next(feature_store.stores_folder().glob("a.parts/plain-00000000")) / "plain.f16"
    part.write_bytes(b"x" + part.read_bytes()[1:])
    assert is_right(make_together(log)) and is_right(make_together(tmp_path / "nothing"))
    assert pieces(log).count(("plain", 0)) == 2 and not pieces(tmp_path / "nothing")
