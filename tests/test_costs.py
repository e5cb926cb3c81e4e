"""What runs cost: medians by hand, and what does not count."""

from lps import costs
from lps.config import configure
from lps.files import write_json
from lps.runs import create_run


def made(root, seconds, *, state="finished", attempt=1, **settings):
    run = create_run(root, configure(settings))
    write_json(run.folder / "process.json", {"attempt": attempt, "started": 1000.0})
    write_json(run.folder / "exit.json", {"attempt": attempt, "state": state, "time": 1000.0 + seconds})
    return run


def seconds(root, **settings):
    config = configure(settings)
    cost = costs.usual_cost(costs.finished_costs(root, {costs.kind(config)}), config)
    return cost and cost.seconds


def test_the_nearest_runs_count_first(tmp_path):
    assert seconds(tmp_path, epochs=10) is None
    made(tmp_path, 4, epochs=5)
    assert seconds(tmp_path, epochs=10) == 8  # scaled by epochs
    made(tmp_path, 30, epochs=10, lr=0.2)
    assert seconds(tmp_path, epochs=10) == 30  # as long
    for taken, seed in ((10, 1), (50, 2), (12, 3)):
        made(tmp_path, taken, epochs=10, seed=seed)
    assert seconds(tmp_path, epochs=10) == costs.usual_seconds(tmp_path, configure({"epochs": 10})) == 12  # the same
    assert seconds(tmp_path, epochs=10, method="orca") is None


def test_only_runs_that_were_finished_in_one_go_count(tmp_path):
    made(tmp_path, 5, state="failed")
    made(tmp_path, 5, attempt=2)
    made(tmp_path, 5, state="stopped")
    damaged = made(tmp_path, 5)
    (damaged.folder / "exit.json").write_text('{"attempt": 1, "state": "finished", "time": NaN}')
    (made(tmp_path, 5).folder / "config.json").write_text("{")
    assert seconds(tmp_path) is None and costs.usual_seconds(tmp_path, configure({})) is None


def test_bytes_are_those_of_all_files_below(tmp_path):
    run = made(tmp_path, 5)
    (run.folder / "snapshots").mkdir()
    (run.folder / "snapshots" / "epoch-0001.npz").write_bytes(bytes(12_345))
    (run.folder / "link").symlink_to("/nowhere")
    (cost,) = costs.finished_costs(tmp_path, {costs.kind(configure({}))})
    files = ("config.json", "meta.json", "process.json", "exit.json")
    assert cost.bytes == 12_345 + sum((run.folder / name).stat().st_size for name in files) + len("/nowhere")


def test_words():
    assert [costs.in_words(s) for s in (1, 48, 300, 9000)] == ["5 s", "50 s", "5 min", "2.5 h"]
    assert [costs.size_in_words(n) for n in (10, 2_400_000, 1_250_000_000)] == ["1 MB", "2 MB", "1.2 GB"]
