"""The file of a race: everything inside, nothing fetched, small, and refusals that leave nothing behind."""

import html
import json
import re

import pytest

import lps
from lps.__main__ import main
from lps.errors import UserError
from lps.race import race_data, race_document
from lps.store.run_folders import recorded_runs
from tests.sample_runs import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    name = "</script><b>&lt;'\"\u2028"
    return make_run(tmp_path_factory.mktemp("runs"), epochs=2, name=name)


def data_of(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_file_holds_all_its_data_and_fetches_nothing(run):
    text = race_document.render(race_data.race_of_runs([run]))
    assert data_of(text) == race_data.race_of_runs([run])
    assert not re.findall(r"(?:src|href)\s*=|https?://|@import|url\(", text)
    assert "default-src 'none'" in html.unescape(text) and text.count("<script") == 2


def test_three_recordings_take_far_less_than_three_megabytes():
    texts = race_document.as_bytes(
        [run for run in recorded_runs() if run.title in ("LPS", "LPS without margin", "ORCA")]
    )
    assert len(texts) < 500_000


def test_the_command_and_the_function_write_the_same_file(run, tmp_path, capsys):
    by_command, by_function = tmp_path / "one.html", tmp_path / "two.html"
    assert main(["replay", run.id, "--to", str(by_command), "--runs", str(run.root)]) in (0, None)
    assert capsys.readouterr().out.strip() == str(by_command)
    assert lps.replay([lps.find_run(run.id, run.root)], by_function) == by_function
    assert by_command.read_bytes() == by_function.read_bytes()


def test_what_cannot_be_written_leaves_nothing_behind(run, tmp_path):
    for runs, to in (([run], tmp_path / "none" / "a.html"), ([run], tmp_path), ([], tmp_path / "a.html")):
        with pytest.raises(UserError):
            race_document.write(runs, to)
    assert list(tmp_path.iterdir()) == []
