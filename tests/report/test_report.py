"""Reports: one HTML file, parsed as a browser reads it; its numbers, what it escapes, and what it never tells."""

import base64
import hashlib
import json
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from lps.__main__ import main
from lps.analysis import differences, naming, run_groups, run_scores, score_tables
from lps.analysis.alarms import Alarm
from lps.charts.group_tables import Scoring
from lps.cli._parser import parser
from lps.cli.training import checked_config
from lps.errors import UserError
from lps.files.atomic import write_json
from lps.report import documents, run_report
from lps.settings.backbone_names import ABOUT_LABELS
from lps.settings.config import configure
from lps.store import provenance
from lps.store.snapshots import read_split, snapshot_epochs
from lps.store.summary import summarize
from tests.sample_runs import make_damaged, make_run, make_unreadable, rewritten

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
SCORING = Scoring("orca", "last", "default")
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></script><h1>x",
    "' onload='alert(1)",
    "{{ 7 * 7 }} {% raw %}",
    r"\input{/etc/passwd} $x$ %",
    '=HYPERLINK("http://x.example")',
    "&lt;b&gt; &amp; ![x](http://x.example/y.png)",
]


class Page(HTMLParser):
    """The elements of a document: (tag, attributes), the text of scripts, the cells of tables, all other text."""

    def __init__(self, text: str):
        super().__init__()
        self.elements, self.scripts, self.rows, self.words = [], [], [], []
        self._open = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "img", "br"):
            self._open.append(tag)
        if tag == "script":
            self.scripts.append("")
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        here = self._open[-1] if self._open else ""
        if here == "script":
            self.scripts[-1] += data
        elif here in ("td", "th"):
            self.rows[-1][-1] += data
        if here not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.words)

    @property
    def programs(self) -> list[str]:
        kinds = [attributes.get("type") for tag, attributes in self.elements if tag == "script"]
        return [script for script, kind in zip(self.scripts, kinds) if kind is None]

    @property
    def figures(self) -> list[dict]:
        ids = [attributes.get("id", "") for tag, attributes in self.elements if tag == "script"]
        return [json.loads(script) for script, name in zip(self.scripts, ids) if name.startswith("figure-")]

    def row(self, first: str) -> list[str]:
        return next(row for row in self.rows if row and row[0] == first)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds of LPS, one without the margin, one with another split, one that was stopped."""
    root = tmp_path_factory.mktemp("runs")
    few = {"split.labeled_ratio": 0.1}
    return [
        make_run(root, epochs=3, seed=0),
        make_run(root, epochs=3, seed=1),
        make_run(root, epochs=3, settings={"use_margin": False}, lucky=False),
        make_run(root, epochs=3, settings=few),
        make_run(root, "stopped", epochs=3, written=2, seed=2),
    ]


@pytest.fixture(scope="module")
def one(runs):
    return Page(run_report.render_run_report([runs[0]], SCORING, NOW))


@pytest.fixture(scope="module")
def several(runs):
    return Page(run_report.render_run_report(runs, SCORING, NOW))


@pytest.mark.parametrize("name", ["one", "several"])
def test_everything_is_inside(name, request):
    page = request.getfixturevalue(name)
    outward = {"src", "href", "srcset", "action", "data", "poster", "background", "formaction", "xlink:href"}
    assert not [tag for tag, attributes in page.elements if outward & set(attributes)]
    assert not {"link", "iframe", "object", "embed", "base", "form", "img"} & {tag for tag, _ in page.elements}
    assert sum("plotly.js v" in script for script in page.programs) == 1 and len(page.programs) == 2
    styles = [attributes["style"] for _, attributes in page.elements if "style" in attributes]
    assert styles and all(re.fullmatch(r"min-height: \d+px", style) for style in styles)
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]


def test_the_policy_names_these_two_scripts_and_nothing_from_elsewhere(one):
    (policy,) = [a["content"] for _, a in one.elements if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and "http" not in policy
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in one.programs]
    assert rules["script-src"].split() == [f"'sha256-{name}'" for name in hashes]


@pytest.mark.slow
def test_the_same_but_for_the_date(runs):
    later = datetime(2027, 1, 1, tzinfo=UTC)
    for chosen in ([runs[0]], runs):
        first, again, other = (run_report.render_run_report(chosen, SCORING, now) for now in (NOW, NOW, later))
        assert first == again != other
        assert first.replace("2026-01-02 03:04 UTC", "") == other.replace("2027-01-01 00:00 UTC", "")


def test_says_where_and_by_whom_nothing_was_run(runs):
    write_json(runs[0].folder / "process.json", runs[0].read_json("process.json") | {"host": "secret-host"})
    text = run_report.render_run_report([runs[0]], SCORING, NOW)
    assert str(runs[0].root) not in text and "secret-host" not in text and str(Path.home()) + "/" not in text


def test_numbers_of_a_run_are_those_of_its_summary(one, runs):
    found = summarize(runs[0])
    assert one.row("Novel accuracy, %")[1:] == [
        f"{100 * found['last']['accuracy/novel']:.1f}",
        f"{100 * found['best']['accuracy/novel']:.1f}",
        "90.0",
    ]
    assert one.row("KL of the estimated class distribution")[1] == f"{found['last']['kl']:.3f}"
    assert f"Best, epoch {found['best']['epoch']}" in one.text and "an oracle" in one.text
    assert "5 of 10 classes seen (first), 50 % labels (bernoulli), split seed 0" in one.text


def test_weights_that_know_imagenets_classes_are_told(tmp_path, one):
    run = make_run(tmp_path, epochs=1, settings={"features": "stored"})
    page = Page(run_report.render_run_report([run], SCORING, NOW))
    assert f"published weights. {ABOUT_LABELS}." in page.words and f"{ABOUT_LABELS}." in page.words
    assert ABOUT_LABELS not in one.text


def test_the_confusion_matrix_counts_the_stored_predictions(one, runs):
    split, targets = read_split(runs[0].folder)
    with np.load(runs[0].snapshots / "epoch-0003.npz") as stored:
        predicted = stored["predicted"]
    (figure,) = [figure for figure in one.figures if figure["data"][0]["type"] == "heatmap"]
    shown = np.array([[int(cell or 0) for cell in row] for row in figure["data"][0]["text"]])
    truth = targets[split.unlabeled]
    rows = [int(text.split()[0]) for text in figure["layout"]["yaxis"]["ticktext"]]
    expected = [[np.sum((predicted == i) & (truth == c)) for c in range(10)] for i in rows]
    assert shown.tolist() == np.array(expected).tolist() and shown.sum() == len(predicted)


@pytest.mark.slow
def test_only_what_a_person_did_to_clusters_is_said(tmp_path):
    run = make_run(tmp_path, epochs=4)
    assert "by their matched class." in run_report.report_of_run(run) and "a person" not in run_report.report_of_run(
        run
    )
    (*_, epoch) = snapshot_epochs(run.snapshots)
    naming.record_steps(run, epoch, [{"do": "name", "id": 7, "name": "sevens"}])
    assert "by their matched class. A user has named clusters." in run_report.report_of_run(run)
    naming.record_steps(run, epoch, [{"do": "merge", "id": 8, "into": 7}])
    assert "A user has named and merged clusters." in run_report.report_of_run(run)


def test_the_size_that_is_told_is_about_that_of_a_report(runs):
    for chosen in (runs[:1], runs):
        size = len(run_report.encode_report(run_report.render_run_report(chosen, SCORING)))
        assert abs(size - documents.usual_size()) < 0.03 * size


def test_the_table_of_a_comparison_is_that_of_compare(several, runs):
    groups = run_groups.group_runs([run_scores.score_run(run) for run in runs])
    assert len(groups) == 3
    for group in groups:
        cells = [score_tables.format_cell(group, column) for column in run_scores.COLUMNS]
        assert [group.label, *cells, str(len(group.members))] in several.rows  # no run has a number of the paper
    for note in score_tables.table_notes(groups, scoring=False):
        assert note[1:] in several.text
    assert "ended early" in several.text and score_tables.format_table(run_report.group_tables.sorted_groups(
        [run_scores.score_run(run) for run in runs]), "latex") in several.text  # fmt: skip
    best = [attributes for tag, attributes in several.elements if tag == "td" and "best" in attributes["class"]]
    held = differences.compare_groups(groups)
    assert len(best) == len(differences.best_cells(groups)) + len(held.bold)
    for row in score_tables.difference_rows(held):
        assert row in several.rows
    for sentence in differences.undecided_in_words(held):
        assert sentence[1:] in several.text


def test_the_symbols_of_compare_are_explained(tmp_path):
    pair = [make_run(tmp_path, epochs=1, settings={"margin_scale": scale}) for scale in (2.0, 5.0)]
    table = run_report._group_table(run_groups.group_runs([run_scores.score_run(run) for run in pair]))
    assert "The page Compare writes settings as symbols: C = margin_scale." in table.notes
    assert [row[0] for row in table.rows] == ["LPS, margin_scale=2", "LPS, margin_scale=5"]


def test_a_group_has_one_colour_in_all_curves(several):
    looks = {}
    for figure in several.figures:
        for trace in figure["data"]:
            if trace.get("showlegend"):
                looks.setdefault(trace["legendgroup"], set()).add(trace["line"]["color"])
    assert len(looks) == 3 and all(len(colours) == 1 for colours in looks.values())
    assert len(set.union(*looks.values())) == 3


def test_runs_without_scores_are_left_out_with_the_reason(runs, tmp_path):
    queued, broken = make_run(tmp_path, "queued"), make_unreadable(tmp_path)
    page = Page(run_report.render_run_report([*runs[:2], queued, broken], SCORING, NOW))
    assert [row[1] for row in page.rows if queued.id[-6:] in row[0]] == ["predictions: no epoch has been evaluated yet"]
    assert any(broken.id[-6:] in row[0] or broken.id == row[0] for row in page.rows)
    with pytest.raises(UserError, match="none of the 2 runs can be scored"):
        run_report.render_run_report([queued, broken], SCORING, NOW)


@pytest.mark.parametrize("state", ["queued", "stopped", "failed", "crashed"])
def test_a_run_in_any_state_has_a_report(state, tmp_path):
    page = Page(run_report.render_run_report([make_run(tmp_path, state, epochs=8)], SCORING, NOW))
    assert state in page.text and bool(page.figures) == (state != "queued")
    if state == "queued":
        assert "No epoch has been evaluated yet." in page.text and not page.programs
        page = Page(run_report.render_run_report([make_damaged(tmp_path)], SCORING, NOW))
        assert "**bold** <b>tag</b> $x$ :fire:" in page.text


def without_the_last_class(_, values: dict) -> dict:
    """No image went to it."""
    count = "class/count_predicted"
    return values | ({count: [*values[count][:-1], 0]} if count in values else {})


def test_alarms_stand_beside_the_state_as_on_the_page_of_the_run(tmp_path):
    run = make_run(tmp_path, epochs=6)
    assert "Alarms" not in run_report.render_run_report([run], SCORING, NOW)
    rewritten(run, without_the_last_class)
    words = "Empty classes at epoch 6: 1 novel class has had no image for 5 epochs."
    assert words in Page(run_report.render_run_report([run], SCORING, NOW)).text


def test_alarms_are_escaped_like_other_texts(tmp_path, monkeypatch):
    run = make_run(tmp_path, epochs=2)
    found = run_report.run_index.Measured(alarms=(Alarm("empty", 2, f"{HOSTILE[0]} {HOSTILE[5]}"),))
    monkeypatch.setattr(run_report.run_index, "measure_run", lambda run: found)
    page = Page(run_report.render_run_report([run], SCORING, NOW))
    assert HOSTILE[0] in page.text and len(page.programs) == 2


def test_hostile_names_are_text(tmp_path):
    """The elements of the page are those that it has with harmless names."""
    run = make_run(tmp_path, epochs=2)
    split = dict(np.load(run.folder / "split.npz"))

    def page_of(names):
        np.savez(run.folder / "split.npz", **split | {"class_names": np.array(names)})
        run.write_meta(name=names[0], notes="\n".join(names), tags=names[:4])
        text = run_report.render_run_report([run], SCORING, NOW)
        return text, Page(text)

    harmless = [f"name {i}" for i in range(10)]
    hostile = [*HOSTILE, "line\u2028separator\u2029", "\u202egnp\x00"]
    (_, calm), (text, wild) = page_of(harmless), page_of(hostile)
    assert [tag for tag, _ in wild.elements] == [tag for tag, _ in calm.elements]
    assert wild.programs == calm.programs and len(wild.figures) == len(calm.figures)
    assert HOSTILE[0] in wild.text and "{{ 7 * 7 }}" in wild.text
    assert not re.search("[\u2028\u2029\u202e\0]", text)
    body = text[: text.index('<script type="application/json"')]
    assert "<script" not in body and "<img" not in body


def test_hostile_settings_of_a_comparison_are_text(tmp_path):
    path = '/home/<script>alert(1)</script>/x"><img src=x>'
    settings = {"network.start": "checkpoint", "network.checkpoint": path}
    runs = [make_run(tmp_path, epochs=2), make_run(tmp_path, epochs=2, settings=settings)]
    page = Page(run_report.render_run_report(runs, SCORING, NOW))
    assert "img" not in {tag for tag, _ in page.elements} and len(page.programs) == 2
    assert len([tag for tag, _ in page.elements if tag == "script"]) == 2 + 1 + len(page.figures)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"method": "orca", "seed": 3, "split.labeled_ratio": 0.1, "threads": 1},
        {"use_margin": False, "margin_scale": 5.0, "split.seen_classes": "0,3,5", "pretrain.seed": 7},
        {"dataset": "cifar100", "method": "gcd", "lr": 1e-3, "epochs": 3},
        {"features": "stored"},
        {"features": "stored", "epochs": 40, "batch_size": 128, "entropy_weight": 1.0},
        {"features": "stored", "network.name": "digits_resnet", "network.start": "random", "network.image_size": None},
        {"network.name": "efficientnet_lite0", "network.start": "random"},
    ],
)
def test_the_command_asks_for_the_same_settings(values, monkeypatch):
    monkeypatch.setattr("lps.data.sources.fetch", lambda *_: None)
    monkeypatch.setattr("lps.scheduler.preflight.check_config", lambda *_: None)
    monkeypatch.setattr("lps.cli.training._print_warnings", lambda *_: None)
    config = configure(values)
    for command, name in ((provenance.train_command, "train"), (provenance.launch_command, "launch")):
        words = shlex.split(command(config))
        assert words[:4] == ["python", "-m", "lps", name]
        assert checked_config(parser().parse_args(words[3:])) == config


def test_a_path_keeps_its_last_part_alone():
    config = configure({"dataset": "folder", "dataset.path": "/home/somebody/photos of birds"})
    assert "--set 'dataset.path=/path/to/photos of birds'" in provenance.train_command(config)
    assert "--set 'dataset.path=/home/somebody/photos of birds'" in provenance.launch_command(config)
    assert provenance.shareable_settings(config) == config.flat() | {"dataset.path": "/path/to/photos of birds"}


def test_how_to_make_it_again(one, several, runs):
    for page, chosen in ((one, runs[:1]), (several, runs)):
        for run in chosen:
            assert provenance.train_command(run.config()) in page.text
        assert f"python {sys.version.split()[0]}" in page.text and "numpy " in page.text
    assert provenance.shareable_settings(runs[0].config()) == json.loads(
        next(w for w in one.words if w.startswith("{\n"))
    )
    assert "python -m lps compare " in several.text


def test_commit_is_that_of_the_programs_own_folder(tmp_path):
    assert provenance.git_commit(tmp_path) == ""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x.example"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert provenance.git_commit(tmp_path) == head[:12]
    (tmp_path / "inside").mkdir()
    assert provenance.git_commit(tmp_path / "inside") == ""


def test_the_command_writes_the_file(runs, tmp_path, capsys):
    to = tmp_path / "report.html"
    where = ["--runs", str(runs[0].root), "--to", str(to)]
    assert main(["report", runs[0].id, runs[2].id, *where]) == 0
    assert capsys.readouterr().out == f"{to}\n"
    page = Page(to.read_text("utf-8"))
    assert "2 runs in 2 groups" in page.text and [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert main(["report", runs[0].id, *where]) == 0 and "epochs, batches of" in Page(to.read_text("utf-8")).text
    assert main(["report", runs[0].id, *where[:2], "--to", str(tmp_path / "no" / "x.html")]) == 2
    assert "to: " in (said := capsys.readouterr().err) and "cannot be written (its folder does not exist" in said
    assert main(["report", runs[0].id, runs[1].id, "--protocol", "x", *where]) == 2


@pytest.mark.parametrize("name", ["x.pdf", "html", "x", "x.tex.gz", "tex", "x.tex", "x.LTX"])
def test_a_name_that_promises_another_kind_of_file_is_refused(runs, tmp_path, capsys, name):
    assert main(["report", runs[0].id, "--runs", str(runs[0].root), "--to", str(tmp_path / name)]) == 2
    said = f"to: {name!r} is not a report file; expected a name that ends in .html"
    if name in ("x.tex", "x.LTX"):
        said = f"to: {name!r}: reports are HTML files; for LaTeX tables use compare --format latex"
    assert said in capsys.readouterr().err and not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["plotly", "pandas", "jinja2"])
def test_without_the_dashboards_libraries_one_line_says_what_is_missing(missing, tmp_path):
    code = f"import sys; sys.modules[{missing!r}] = None; from lps.__main__ import main; sys.exit(main(sys.argv[1:]))"
    words = ["report", "x", "--runs", str(tmp_path), "--to", str(tmp_path / "report.html")]
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "" and not list(tmp_path.iterdir())
    assert done.stderr.count("\n") == 1 and "not installed: pip install plotly pandas jinja2" in done.stderr


@pytest.mark.slow
def test_pages_make_the_report_when_it_is_asked_for(runs, monkeypatch):
    from tests.visiting import visit

    made = []
    monkeypatch.setenv("LPS_RUNS", str(runs[0].root))
    monkeypatch.setattr(run_report, "report_of_run", lambda *_: made.append("run") or "")
    monkeypatch.setattr(run_report, "report_of_comparison", lambda *_: made.append("comparison") or "")
    for page, chosen in (("live", runs[:1]), ("runs", runs[:1]), ("compare", runs)):
        app = visit(page, run=[run.id for run in chosen])
        buttons = [element for element in app.get("download_button") if element.proto.label.startswith("Report (HTML")]
        assert len(buttons) == 1 and buttons[0].proto.deferred_file_id
    assert made == []


def test_an_imbalance_is_told_with_the_split(tmp_path):
    asked = {"split.imbalance": 10.0, "split.imbalance_order": "novel", "split.labeled_imbalance": 3.0}
    run = make_run(tmp_path, epochs=1, settings=asked | {"split.rule": "stratified"})
    text = Page(run_report.render_run_report([run], SCORING, NOW)).text
    assert "split seed 0, class sizes 10 to 1 (novel), labels per class 3 to 1" in text
