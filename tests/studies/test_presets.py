"""Presets: their runs against counts by hand, the paper's numbers against the file, filled tables against NumPy."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lps.analysis import paper_results, run_scores
from lps.errors import UserError
from lps.settings.backbone_names import ABOUT_LABELS
from lps.settings.config import configure
from lps.studies import preset_tables, presets
from lps.studies.presets import PRESETS, PresetRequest, build_paper_table, cell_key
from tests.sample_runs import make_run

PUBLISHED = Path(paper_results.__file__).with_name("paper_tables.csv")
# lines x data sets, by the paper's tables; 20 lines of Table 1 stand for ten methods at two ratios
CELLS = {
    "table1": (20, 3), "nmi": (3, 4), "finetuning": (14, 2), "ablation": (5, 2), "eta1": (5, 1), "eta2": (5, 1),
    "lambda_novel": (5, 2), "C": (5, 2), "temperature": (5, 2), "novel": (5, 1), "labels": (5, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_lays_out_its_runs_each_once(name):
    lines, sets = CELLS[name]
    blocks = {"paper": sets, "demo": 2 if name == "nmi" else 1}
    for scale, count in blocks.items():
        runs = build_paper_table(PresetRequest(name, scale)).labeled_configs()
        assert len(runs) == len({config.to_json() for config, _ in runs}) == lines * count * 3
        assert [config.seed for config, _ in runs] == sorted([0, 1, 2] * (lines * count))
        assert len({label for _, label in runs}) == len(runs)
        sets_of = {config.dataset for config, _ in runs}
        assert sets_of == ({"digits"} if scale == "demo" else set(PRESETS[name].datasets))


@pytest.mark.parametrize("name", [name for name in PRESETS if name not in ("novel", "labels")])
def test_runs_at_the_papers_scale_are_those_that_the_paper_reports(name):
    """`paper_results.matching_row` finds by itself which line of the paper a run reproduces."""
    for cell in build_paper_table(PresetRequest(name, "paper")).all_cells:
        row, reasons = paper_results.matching_row(cell.config)
        assert reasons == [] and row is not None, (cell.line.label, reasons)
        if name == "nmi":
            assert row.nmi == cell.row.nmi is not None
        else:
            assert (row.seen, row.novel, row.all) == (cell.row.seen, cell.row.novel, cell.row.all)


def test_cells_on_weights_that_know_imagenets_classes_have_no_numbers_of_the_paper_beside_them():
    found = build_paper_table(PresetRequest("table1", "paper", datasets=("cifar10",), fixed={"features": "stored"}))
    assert found.all_cells and not any(cell.row for cell in found.all_cells)
    assert ABOUT_LABELS in preset_tables.grid_notes(found, {})
    assert ABOUT_LABELS not in preset_tables.grid_notes(
        build_paper_table(PresetRequest("table1", "paper", datasets=("cifar10",))), {}
    )


def test_every_number_of_the_papers_tables_stands_in_a_preset():
    """The cells together have all lines of the file, with its numbers and no others."""
    with open(PUBLISHED, newline="") as file:
        lines = list(csv.DictReader(file))
    columns = ("table", "dataset", "labeled_ratio", "method_or_setting", "value")
    numbers = {tuple(line[c] for c in columns): [line[m] for m in ("seen", "novel", "all", "nmi")] for line in lines}
    shown = {}
    for name in PRESETS:
        for row in (
            cell.row for cell in build_paper_table(PresetRequest(name, "paper")).all_cells if cell.row is not None
        ):
            key = (row.table, row.dataset, f"{row.labeled_ratio:g}", row.method, row.value)
            shown[key] = [row.seen, row.novel, row.all, row.nmi]
    assert len(lines) == 136 and shown.keys() == numbers.keys()
    for key, texts in numbers.items():
        assert shown[key] == [float(text) if text else None for text in texts]


def test_the_demo_shows_the_papers_numbers_beside_its_own_and_says_what_they_are_not():
    grid = preset_tables.build_grid(build_paper_table(PresetRequest("ablation")), {})
    assert [words for words, _ in grid.heads] == ["digits", "Paper: CIFAR-10"]
    rows = {label: cells for _, label, cells in grid.rows}
    assert rows["w/o R_Entropy"] == ("–", "–", "–", "0/3", "90.8", "55.4", "66.2")
    assert rows["LPS"][-3:] == ("90.2", "93.4", "92.4")
    (note,) = [note for note in grid.notes if note.startswith("not comparable")]
    assert "it has no results on digits" in note and "40 epochs" in note
    exact = preset_tables.build_grid(build_paper_table(PresetRequest("ablation", "paper")), {})
    assert not [note for note in exact.notes if note.startswith("not comparable")]
    short = preset_tables.build_grid(build_paper_table(PresetRequest("ablation", "paper", fixed={"epochs": "9"})), {})
    assert [note for note in short.notes if note.startswith("not comparable") and "9 epochs" in note]


def test_presets_share_their_runs():
    """The full method at 50 % labels is one run, whatever table asks for it."""
    full = cell_key(configure({"method": "lps"}))
    for name in ("table1", "ablation", "eta1", "eta2", "C", "temperature", "novel", "labels"):
        assert full in build_paper_table(PresetRequest(name)).cell_by_key
    table = {config.to_json() for config, _ in build_paper_table(PresetRequest("table1", "paper")).labeled_configs()}
    assert {
        config.to_json() for config, _ in build_paper_table(PresetRequest("nmi", "paper")).labeled_configs()
    } <= table


def test_the_number_of_novel_classes_is_what_the_line_says():
    for scale, total in (("demo", 10), ("paper", 100)):
        cells = build_paper_table(PresetRequest("novel", scale)).all_cells
        for cell in cells:
            seen = cell.config.split_num_seen
            assert int(cell.line.label) == total - (total // 2 if seen is None else seen)
        assert sum(cell.row is not None for cell in cells) == 1


def test_settings_for_all_runs_reach_those_that_have_them():
    for cell in build_paper_table(PresetRequest("table1", fixed={"margin_scale": "3", "epochs": "2"})).all_cells:
        assert cell.config.epochs == 2
        has_it = cell.config.method in ("lps", "orca")
        assert cell.config.hyperparameters.get("margin_scale") == (3.0 if has_it else None)
    path = build_paper_table(PresetRequest("table1", "paper", fixed={"dataset.path": "/x"}))
    assert {cell.config.dataset for cell in path.all_cells if cell.config.dataset_path} == {"imagenet100"}
    one = build_paper_table(PresetRequest("C", "paper", datasets=("cifar10",), fixed={"dataset.path": "/x"}))
    assert all(cell.config.dataset_path == "/x" for cell in one.all_cells)
    with pytest.raises(UserError, match=r"dataset\.path: applies to one data set"):
        build_paper_table(PresetRequest("C", "paper", fixed={"dataset.path": "/x"}))


def test_other_settings_have_another_name():
    names = [PresetRequest("C").name, *(PresetRequest("C", fixed={"epochs": text}).name for text in "23")]
    names += [PresetRequest("C", "paper").name, PresetRequest("C", "paper", datasets=("cifar10",)).name]
    names += [
        PresetRequest("lambda_novel", fixed={"split.labeled_ratio": text}).name for text in ("0.123456", "0.123457")
    ]
    assert len(set(names)) == 7 and all(len(name) <= presets.NAME_LIMIT for name in names)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Three seeds of the full method, two without entropy, one that belongs to no cell."""
    root = tmp_path_factory.mktemp("runs")
    runs = [make_run(root, epochs=2, seed=seed) for seed in (0, 1, 2)]
    runs += [make_run(root, epochs=2, seed=s, settings={"entropy_weight": 0.0}, lucky=False) for s in (0, 1)]
    runs.append(make_run(root, epochs=2, settings={"temperature": 0.7}))
    return build_paper_table(PresetRequest("ablation", fixed={"epochs": "2"})), [
        run_scores.score_run(run) for run in runs
    ]


def test_a_filled_table_has_numpys_means_and_deviations(filled):
    made, scored = filled
    groups = preset_tables.fill_table(made, scored)
    assert {made.lines[line].label for line, _ in groups} == {"LPS", "w/o R_Entropy"}
    rows = {label: cells for _, label, cells in preset_tables.build_grid(made, groups).rows}
    for label, members, count in (("LPS", scored[:3], "3"), ("w/o R_Entropy", scored[3:5], "2/3")):
        for k, measure in enumerate(("seen", "novel", "all")):
            values = 100 * np.array([getattr(member.scores, measure) for member in members])
            assert rows[label][k] == f"{values.mean():.1f} ± {values.std(ddof=1):.1f}"
        assert rows[label][3] == count
    assert rows["w/o L_AM"][:4] == ("–", "–", "–", "0/3")


def test_what_is_distinguishable_of_ours_is_bold_and_the_papers_never(filled):
    made, scored = filled
    spread = [replace(m, scores=replace(m.scores, novel=0.9 - 0.3 * (i > 2) + 0.001 * i)) for i, m in enumerate(scored)]
    spread[4] = replace(spread[4], scores=replace(spread[4].scores, novel=0.603))
    groups = preset_tables.fill_table(made, spread)
    bold = preset_tables.build_grid(made, groups).bold
    full, lost = ([line.label for line in made.lines].index(label) for label in ("LPS", "w/o R_Entropy"))
    assert groups[full, 0].mean("novel") > groups[lost, 0].mean("novel")
    assert (full, 1) in bold and (lost, 1) not in bold and all(cell < 3 for _, cell in bold)


def test_latex_has_as_many_cells_in_every_row_and_closes_what_it_opens(filled):
    made, scored = filled
    text = preset_tables.latex_of_grid(
        preset_tables.build_grid(made, preset_tables.fill_table(made, scored)), "python -m lps sweep"
    )
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    assert text.startswith("% python -m lps sweep\n") and text.count("\\begin{") == text.count("\\end{") == 1
    columns = re.search(r"tabular}{(lc+)}", text).group(1)
    body = [line for line in lines if line.endswith("\\\\") and "multicolumn" not in line]
    assert len(body) == 6 and {line.replace(r"\&", "").count("&") + 1 for line in body} == {len(columns)}
    assert "w/o R\\_Entropy" in text and "\\textbf{" in text and " $\\pm$ " in text


def test_csv_has_the_same_numbers(filled):
    made, scored = filled
    head, *rows = preset_tables.csv_rows(made, preset_tables.fill_table(made, scored))
    table = [dict(zip(head, row, strict=True)) for row in rows]
    assert len(table) == 5 * 3
    (novel,) = [row for row in table if row["line"] == "LPS" and row["measure"] == "novel"]
    values = np.array([member.scores.novel for member in scored[:3]])
    assert float(novel["mean"]) == pytest.approx(values.mean(), rel=1e-5)
    assert float(novel["std"]) == pytest.approx(values.std(ddof=1), rel=1e-4)
    (other,) = [row for row in table if row["line"] == "w/o R_Entropy" and row["measure"] == "novel"]
    lost = [member.scores.novel for member in scored[3:5]]
    assert float(other["difference"]) == pytest.approx(np.mean(lost) - values[:2].mean(), rel=1e-4)
    assert (other["against"], other["pairs"], novel["against"]) == ("LPS", "2", "")
    assert (novel["n"], novel["seeds"], novel["paper"], novel["paper_dataset"]) == ("3", "0 1 2", "0.934", "CIFAR-10")


def test_runs_of_another_split_are_not_averaged(filled):
    made, scored = filled
    (group,) = preset_tables.fill_table(made, [*scored[:2], replace(scored[2], split="other")]).values()
    assert [member.split for member in group.members] == [scored[0].split] * 2


def test_a_curve_has_the_papers_numbers_at_their_values():
    ours, theirs = preset_tables.preset_curve(build_paper_table(PresetRequest("lambda_novel")), {}, 0)
    expected = {0.7: 91.5, 0.75: 92.3, 0.8: 92.4, 0.85: 91.3, 0.9: 90.5}
    assert ours == {} and {value: row.all for value, row in theirs.items()} == expected
    assert preset_tables.curve_positions(build_paper_table(PresetRequest("labels"))) == [10, 30, 50, 70, 90]
    assert preset_tables.curve_positions(build_paper_table(PresetRequest("ablation"))) == []
