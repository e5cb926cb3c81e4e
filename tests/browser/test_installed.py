"""From an installed wheel, outside of a clone, to the end of the demo."""

import json
import os
import subprocess

import pytest
from playwright.sync_api import expect

from tests.installing import build, install, nobody
from tests.patience import until
from tests.servers import Server, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
DEMO_S = 500  # two trainings of a minute, on a busy machine


def files(place) -> set[str]:
    """All below, but for what Python compiles."""
    return {str(path) for path in place.rglob("*") if "__pycache__" not in path.parts}


def test_lps_app_opens_home_and_finishes_the_demo(chromium, tmp_path, monkeypatch):
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

        def states() -> list[str]:
            command = [str(programs / "lps"), "list", "--json"]
            said = subprocess.run(command, cwd=elsewhere, env=own, capture_output=True, text=True, check=True).stdout
            return [row["state"] for row in json.loads(said)]

        until(lambda: not {"queued", "starting", "running"} & set(states()), DEMO_S, pause_s=2)
        assert states() == ["finished", "finished"]
        expect(page.get_by_test_id("stException")).to_have_count(0)
        page.close()
    assert files(package) == before and not files(elsewhere), "an installation that can only be read would not do"
