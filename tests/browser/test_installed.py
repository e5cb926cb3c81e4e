"""From an installed wheel, outside of a clone, to the first epoch of both runs of the demo."""

import json
import os
import subprocess

import pytest
from playwright.sync_api import expect

from lps.scheduler import launcher
from lps.store.events import read_last_event
from lps.store.run_folders import list_runs
from tests.installing import build, install, nobody
from tests.patience import until
from tests.servers import Server, free_port

pytestmark = [pytest.mark.slow, pytest.mark.turn(0, 2), pytest.mark.timeout(900)]
DEMO_S = 300  # two trainings, the second after the first where there is one core, on a busy machine


def files(place) -> set[str]:
    """All below, but for what Python compiles."""
    return {str(path) for path in place.rglob("*") if "__pycache__" not in path.parts}


def test_lps_app_opens_home_and_trains_the_demo(chromium, tmp_path, monkeypatch):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir(), elsewhere.mkdir()
    programs = install(tmp_path / "env", [str(build(tmp_path / "built"))])
    own = nobody(home)
    for name in set(os.environ) - set(own):
        monkeypatch.delenv(name)
    (package,) = (tmp_path / "env").glob("lib/python*/site-packages/lps")
    before, port, runs = files(package), free_port(), home / ".local" / "share" / "lps-studio" / "runs"
    command = [str(programs / "lps"), "app", "--port", str(port), "--no-browser"]
    with Server(command, port, tmp_path / "log", elsewhere, HOME=str(home)).answering() as server:
        assert server.await_line(r"Runs are stored in (.+)\n") == str(runs)
        page = chromium.new_page()
        page.goto(server.await_line(r"LPS Studio: (\S+)"))
        page.get_by_role("button", name="Start the demo").click(timeout=60_000)
        expect(page.get_by_role("heading", name="Race")).to_be_visible(timeout=60_000)

        def are_over() -> bool:
            """Each run is stopped once it has an epoch; tests/house/test_first_hour.py trains to the end."""
            found = [(run, run.state().name) for run in list_runs(runs)]
            for run, state in found:
                if state == "running" and (read_last_event(run.events) or {}).get("kind") == "eval":
                    launcher.stop(run)
            return [state for _, state in found] == ["stopped", "stopped"]

        until(are_over, DEMO_S, pause_s=0.2)
        command = [str(programs / "lps"), "list", "--json"]
        listed = subprocess.run(command, cwd=elsewhere, env=own, capture_output=True, text=True, check=True).stdout
        assert all(row["epochs"] and 0 <= row["all"] <= 1 for row in json.loads(listed))
        expect(page.get_by_test_id("stException")).to_have_count(0)
        page.close()
    assert files(package) == before and not files(elsewhere), "an installation that can only be read would not do"
