"""Define the paper's tables and curves as sweeps: which runs fill which cell, at the paper's scale or on digits.

A preset is a table of lines (what is varied) and blocks (data sets). Every cell is one config per seed and knows its
line in the paper. Equal cells of two presets are equal runs, so nothing is trained twice.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property

from lps.analysis import paper_results
from lps.analysis.run_scores import REPEATED
from lps.errors import UserError, check_choice, shorten
from lps.settings import cli_args
from lps.settings.config import Config, configure, parameters, protocol_parameters
from lps.store.runs import TAG_LIMIT
from lps.studies.sweep_records import PREFIX

SCALES = {
    "demo": "scikit-learn's digits, a small network, 40 epochs unless set otherwise: two CPU cores are enough",
    "paper": "the paper's data sets, networks, epochs and batches: needs a GPU and days",
}
SEEDS = (0, 1, 2)  # the paper's numbers are means of three runs
_ACCURACIES = ("seen", "novel", "all")
_HALF, _TENTH = {"split.labeled_ratio": 0.5}, {"split.labeled_ratio": 0.1}
_NEEDS_PATH = "imagenet100"  # the one data set that needs dataset.path
DEMO = "digits"
NAME_LIMIT = TAG_LIMIT - len(PREFIX)
_OPTION_OF_SETTING = {"dataset": "--dataset", "method": "the preset", "seed": "--seeds"}  # what to use instead of --set


@dataclass(frozen=True)
class Line:
    """A row of the paper's table. settings: of its runs, by key. section: its heading.

    table, name, value: where its numbers are in `paper_tables.csv`; "" for a row without numbers in the paper.
    """

    label: str
    settings: Mapping[str, object]
    table: str = ""
    name: str = "LPS"
    value: str = ""
    section: str = ""


@dataclass(frozen=True)
class Block:
    """Columns that belong together: a data set, with own settings if the paper has two blocks for one data set.

    published: the paper's data set whose numbers are shown beside.
    """

    title: str
    dataset: str
    published: str
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Preset:
    """One table or curve of the paper. setting: the key along a curve, "" for a table. measures: its columns."""

    name: str
    title: str
    paper_location: str  # in the paper
    description: str
    lines: tuple[Line, ...]
    datasets: tuple[str, ...] = ("cifar10", "cifar100")
    measures: tuple[str, ...] = _ACCURACIES
    setting: str = ""
    by_ratio: bool = False  # one block for each labeled ratio

    def blocks(self, scale: str) -> tuple[Block, ...]:
        """Return the columns at a scale; on digits, the first data set of the paper stands beside them."""
        check_choice("scale", scale, SCALES)
        pairs = [(DEMO, self.datasets[0])] if scale == "demo" else [(name, name) for name in self.datasets]
        blocks = []
        for name, published in pairs:
            title = paper_results.DATASETS.get(name, name)
            ratios = (_TENTH, _HALF) if self.by_ratio else ({},)
            for ratio in ratios:
                ratio_text = f", {100 * ratio['split.labeled_ratio']:g} % labels" if ratio else ""
                blocks.append(Block(title + ratio_text, name, paper_results.DATASETS[published], ratio))
        return tuple(blocks)


# ---------------------------------------------------------------------------------------------------- the presets

_MAIN, _FINETUNED, _FINETUNED_TENTH = "table1_main", "table3_finetune_backbone", "supp_finetune_backbone_10"
_METHODS = ("FixMatch", "DS3L", "DTC", "RankStats", "SimCLR", "ORCA", "GCD", "OpenNCD", "NACH", "LPS")
_SECTIONS = {"10 % labels": _TENTH, "50 % labels": _HALF}


def _method_lines(names: Iterable[str], settings: Mapping, table: str, section: str = "") -> list[Line]:
    return [Line(name, {"method": name.lower()} | settings, table, name, section=section) for name in names]


def _main_lines() -> tuple[Line, ...]:
    return tuple(line for title, ratio in _SECTIONS.items() for line in _method_lines(_METHODS, ratio, _MAIN, title))


def _fine_tuning_lines() -> tuple[Line, ...]:
    free, frozen = {"network.freeze_until": "none"}, {"network.freeze_until": "layer3"}
    half, tenth = ("ORCA", "OpenNCD", "NACH", "LPS"), ("ORCA", "NACH", "LPS")
    return (
        *_method_lines(half, _HALF | free, _FINETUNED, "50 % labels, all layers trained"),
        *_method_lines(half, _HALF | frozen, _MAIN, "50 % labels, first three stages frozen"),
        *_method_lines(tenth, _TENTH | free, _FINETUNED_TENTH, "10 % labels, all layers trained"),
        *_method_lines(tenth, _TENTH | frozen, _MAIN, "10 % labels, first three stages frozen"),
    )


def _ablation_lines() -> tuple[Line, ...]:
    without = {
        "w/o L_AM": {"use_margin": False},
        "w/o L_PC": {"pseudo_label_weight": 0.0},
        "w/o L_UC": {"unsupervised_weight": 0.0},
        "w/o R_Entropy": {"entropy_weight": 0.0},
        "LPS": {},
    }
    return tuple(Line(label, _HALF | settings, "table4_ablation", label) for label, settings in without.items())


def _curve_lines(setting: str, values: Iterable[str], table: str) -> tuple[Line, ...]:
    return tuple(Line(value, _HALF | {setting: float(value)}, table, value=value) for value in values)


def _ratio_lines() -> tuple[Line, ...]:
    ratio_sources = {0.1: _MAIN, 0.3: "", 0.5: _MAIN, 0.7: "", 0.9: ""}
    return tuple(
        Line(f"{100 * value:g} %", {"split.labeled_ratio": value}, ratio_sources[value]) for value in ratio_sources
    )


def _novel_lines(scale: str) -> tuple[Line, ...]:
    """Return lines by number of novel classes; half of all is left unset, so its run equals that of other presets."""
    total = 10 if scale == "demo" else 100
    shares = (0.2, 0.3, 0.5, 0.7, 0.8)
    lines = []
    for share in shares:
        seen = None if share == 0.5 else total - round(share * total)
        lines.append(Line(str(round(share * total)), _HALF | {"split.num_seen": seen}, _MAIN if seen is None else ""))
    return tuple(lines)


_HALF_LABELED = "LPS with half of the labels."
_WEIGHTS, _ENDS = ("0.6", "0.8", "1.0", "1.2", "1.4"), ("0.70", "0.75", "0.80", "0.85", "0.90")
_NO_NUMBERS = "The paper only has results for {}; the other values are our choice."
PRESETS = {
    preset.name: preset
    for preset in (
        Preset("table1", "Main comparison", "Table 1",
               "The 10 methods of the paper's Table 1 with 10 % and with 50 % of the labels.",
               _main_lines(), ("cifar10", "cifar100", "imagenet100")),
        Preset("nmi", "NMI of novel classes", "Table 2", "Normalized mutual information on images of novel classes.",
               tuple(_method_lines(("ORCA", "NACH", "LPS"), {}, "table2_nmi_novel")), measures=("nmi",), by_ratio=True),
        Preset("finetuning", "Fine-tuning with and without freezing", "Table 3 and supplement",
               "Training the whole network compared with freezing the first three stages.", _fine_tuning_lines()),
        Preset("ablation", "Ablation", "Table 4", "LPS with one part left out at a time: the margin (then plain "
               "cross-entropy), each of the two contrastive losses, or the entropy term.", _ablation_lines()),
        Preset("eta1", "Weight of the pseudo-label contrastive loss", "supplement, eta1", _HALF_LABELED,
               _curve_lines("pseudo_label_weight", _WEIGHTS, "supp_eta1"), ("cifar100",),
               setting="pseudo_label_weight"),
        Preset("eta2", "Weight of the unsupervised contrastive loss", "supplement, eta2", _HALF_LABELED,
               _curve_lines("unsupervised_weight", _WEIGHTS, "supp_eta2"), ("cifar100",),
               setting="unsupervised_weight"),
        Preset("lambda_novel", "Final confidence threshold of novel classes", "supplement, lambda_novel",
               "The threshold rises from 0.4 to this value; LPS with half of the labels.",
               _curve_lines("threshold_novel_end", _ENDS, "supp_lambda_novel"), setting="threshold_novel_end"),
        Preset("C", "Scale of the margin", "supplement, C", _HALF_LABELED,
               _curve_lines("margin_scale", ("1", "5", "10", "15", "20"), "supp_C"), setting="margin_scale"),
        Preset("temperature", "Temperature of the contrastive losses", "supplement, tau", _HALF_LABELED,
               _curve_lines("temperature", ("0.2", "0.3", "0.4", "0.5", "0.6"), "supp_tau"), setting="temperature"),
        Preset("novel", "Number of novel classes", "Table 1, half of the classes seen", "LPS with more or fewer novel "
               f"classes. {_NO_NUMBERS.format('runs with half of the classes novel')}", _novel_lines("paper"),
               ("cifar100",),
               setting="split.num_seen"),
        Preset("labels", "Labeled ratio", "Table 1, 10 and 50 % of the labels", "LPS with more or fewer labels. "
               f"{_NO_NUMBERS.format('10 and 50 %')}", _ratio_lines(), setting="split.labeled_ratio"),
    )
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------- asked for


@dataclass(frozen=True)
class PresetRequest:
    """A requested preset. datasets: of the paper's scale, () for all. fixed: texts of settings for all runs."""

    preset: str
    scale: str = "demo"
    seeds: tuple[int, ...] = SEEDS
    datasets: tuple[str, ...] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)

    def as_record(self) -> dict:
        """Return the request as JSON for `sweep_records`."""
        return {"preset": asdict(self) | {"seeds": list(self.seeds), "datasets": list(self.datasets)}}

    @property
    def name(self) -> str:
        """Return the default name of the sweep; other settings give another name."""
        default_name = f"{self.preset}-{self.scale}"
        if not self.fixed and not self.datasets:
            return default_name
        parts = [*self.datasets, *(f"{key}={text}" for key, text in self.fixed.items() if key != "dataset.path")]
        full_name = "-".join([default_name, *parts])
        digest = hashlib.sha256(full_name.encode()).hexdigest()[:6]
        return full_name if len(full_name) <= NAME_LIMIT and full_name.isprintable() else f"{default_name}-{digest}"

    def command(self, name: str = "") -> str:
        """Return the command that starts the sweep."""
        options = {"preset": self.preset, "scale": self.scale, "seeds": cli_args.join_values(self.seeds)}
        other_options = {
            "dataset": cli_args.join_values(self.datasets),
            "set": self.fixed,
            "name": name != self.name and name,
        }
        return cli_args.format_command("sweep", **options, **other_options)


def from_record(record: Mapping) -> PresetRequest | None:
    """Return the request in a stored record; None if it is another record or damaged."""
    stored = record.get("preset")
    if not isinstance(stored, dict):
        return None
    try:
        fixed = {str(key): str(text) for key, text in stored["fixed"].items()}
        seeds = tuple(int(seed) for seed in stored["seeds"])
        request = PresetRequest(stored["preset"], stored["scale"], seeds, tuple(map(str, stored["datasets"])), fixed)
        build_paper_table(request)
    except (KeyError, TypeError, ValueError, AttributeError):  # a UserError is a ValueError
        return None
    return request


# ---------------------------------------------------------------------------------------------------- cells


@dataclass(frozen=True)
class Cell:
    """Where a line and a block meet. config: with the first seed. row: the paper's numbers; None if it has none."""

    line: Line
    block: Block
    config: Config
    row: paper_results.Row | None


@dataclass(frozen=True)
class PaperTable:
    """The table of a preset at a scale. cells: [line][block]."""

    request: PresetRequest
    preset: Preset
    lines: tuple[Line, ...]
    blocks: tuple[Block, ...]
    cells: tuple[tuple[Cell, ...], ...]

    def line_title(self, line: Line) -> str:
        """Return the title of a line outside the table."""
        names = {
            "split.num_seen": f"{line.label} novel classes",
            "split.labeled_ratio": f"{line.label} labels",
            "": line.label,
        }
        return names.get(self.preset.setting, f"{self.preset.setting} {line.label}")

    @property
    def all_cells(self) -> list[Cell]:
        return [cell for row in self.cells for cell in row]

    @cached_property
    def cell_by_key(self) -> dict[str, tuple[int, int]]:
        """`cell_key` of a run -> (line, block)."""
        return {cell_key(c.config): (i, k) for i, row in enumerate(self.cells) for k, c in enumerate(row)}

    def labeled_configs(self) -> list[tuple[Config, str]]:
        """Return (config, label) of every run, seed by seed: after the first seed every cell has a number."""
        several = len(self.blocks) > 1
        labeled_configs = []
        for seed in self.request.seeds:
            for cell in self.all_cells:
                block_title = cell.block.title if several else ""
                parts = [self.line_title(cell.line), cell.line.section, block_title, f"seed {seed}"]
                config = configure(cell.config.flat() | {"seed": seed})
                labeled_configs.append((config, f"{self.preset.name}: {', '.join(filter(None, parts))}"))
        return labeled_configs


def build_paper_table(request: PresetRequest) -> PaperTable:
    """Build the requested table and check every config; raises `UserError`."""
    check_choice("preset", request.preset, PRESETS)
    chosen_preset = PRESETS[request.preset]
    blocks = chosen_preset.blocks(request.scale)
    lines = _novel_lines(request.scale) if chosen_preset.name == "novel" else chosen_preset.lines
    datasets = list(dict.fromkeys(block.dataset for block in blocks))
    for name in request.datasets:
        if name not in datasets:
            raise UserError("dataset", f"{shorten(name)} is not in {chosen_preset.name} at this scale; choices: "
                              f"{', '.join(datasets)}")  # fmt: skip
    if not request.seeds or len(set(request.seeds)) < len(request.seeds):
        raise UserError(
            "seeds", f"{', '.join(map(str, request.seeds)) or 'none'}: expected at least one seed, each once"
        )
    for seed in request.seeds:
        protocol_parameters()["seed"].check(seed)
    blocks = tuple(block for block in blocks if not request.datasets or block.dataset in request.datasets)
    _check_fixed(request, lines, blocks)
    owner = _path_owner(blocks)
    cells = tuple(tuple(_cell(request, line, block, owner) for block in blocks) for line in lines)
    return PaperTable(request, chosen_preset, lines, blocks, cells)


def _check_fixed(request: PresetRequest, lines: Sequence[Line], blocks: Sequence[Block]) -> None:
    """Check that fixed settings belong to a method and are not varied by the table; raises `UserError`."""
    varied_keys = {key for line in lines for key in line.settings} | {key for block in blocks for key in block.settings}
    known_keys = {key: None for line in lines for key in parameters(str(line.settings.get("method", "lps")))}
    for name in request.fixed:
        if name in _OPTION_OF_SETTING:
            raise UserError(name, f"cannot be set by name here; use {_OPTION_OF_SETTING[name]}")
        if name in varied_keys:
            raise UserError(name, f"is varied by the preset {request.preset}; remove it")
        if name not in known_keys:
            raise UserError(
                shorten(name).strip("'\""), f"is not a setting of its methods; choices: {', '.join(known_keys)}"
            )
        if name == "dataset.path" and _path_owner(blocks) is None:
            raise UserError(name, "applies to one data set; choose it with --dataset")


def _path_owner(blocks: Sequence[Block]) -> str | None:
    """Return the data set that dataset.path belongs to: the one that cannot be downloaded, else the only one."""
    names = {block.dataset for block in blocks}
    return _NEEDS_PATH if _NEEDS_PATH in names else names.pop() if len(names) == 1 else None


def _cell(request: PresetRequest, line: Line, block: Block, path_owner: str | None) -> Cell:
    settings = dict(line.settings) | dict(block.settings)
    method = str(settings.get("method", "lps"))
    documented = parameters(method)
    fixed = {
        name: documented[name].parse(text)
        for name, text in request.fixed.items()
        if name in documented and (name != "dataset.path" or block.dataset == path_owner)
    }
    config = configure({"dataset": block.dataset, "method": method, "seed": request.seeds[0]} | fixed | settings)
    return Cell(line, block, config, _published(line, block, config))


def _published(line: Line, block: Block, config: Config) -> paper_results.Row | None:
    if config.rests_on_labels:
        return None
    for row in paper_results.paper_rows():
        wanted_cell = (row.table, row.dataset, row.method, row.value, row.labeled_ratio)
        if wanted_cell == (line.table, block.published, line.name, line.value, config.split_labeled_ratio):
            return row
    return None


def cell_key(config: Config) -> str:
    """Return a key that is equal for runs of one cell: all settings except those that differ between repetitions."""
    return json.dumps({key: value for key, value in config.flat().items() if key not in REPEATED}, sort_keys=True)
