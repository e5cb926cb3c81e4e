"""The ablation table of LPS: the full method and each variant without one of its parts, with the runs still missing."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lps.analysis.effects import Background, find_backgrounds, missing_configs, settings_in_words, usual_seeds
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import Scored
from lps.settings.catalog import method_info
from lps.settings.config import Config

_SWITCHES = ("use_margin", "margin_scale", "pseudo_label_weight", "unsupervised_weight", "entropy_weight")
_FULL = "Full LPS"
# Settings that switch each part off. The two of the margin are the same computation.
WITHOUT = {
    "Without margin": ({"use_margin": False}, {"margin_scale": 0.0}),
    "Without pseudo-label contrastive loss": ({"pseudo_label_weight": 0.0},),
    "Without unsupervised contrastive loss": ({"unsupervised_weight": 0.0},),
    "Without entropy": ({"entropy_weight": 0.0},),
}


@dataclass(frozen=True)
class Variant:
    """One variant. values: of `_SWITCHES`. group: its runs, None if there are none yet."""

    name: str
    values: tuple
    group: Group | None


@dataclass(frozen=True)
class AblationTable:
    """The five variants of one full method. Everything else, and the split, is the same in all rows.

    full: the values of `_SWITCHES` in the full method.
    """

    background: Background
    full: tuple
    rows: tuple[Variant, ...]

    @property
    def id(self) -> str:
        return f"{self.background.id}-{'-'.join(f'{value:g}' for value in self.full[1:])}"

    @property
    def groups(self) -> list[Group]:
        return [row.group for row in self.rows if row.group]

    @property
    def runs(self) -> int:
        return sum(len(group.members) for group in self.groups)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that most rows have."""
        return usual_seeds(self.groups)

    def missing(self, row: Variant) -> list[Config]:
        """Return the configs that a row lacks for the seeds of the other rows."""
        return missing_configs(self.background, row.values, self.seeds)


def ablation_tables(scored: Iterable[Scored]) -> list[AblationTable]:
    """Return one table per full method among the LPS runs; most rows first, then most runs, then default weights."""
    table_by_method: dict[tuple, AblationTable] = {}
    for background in find_backgrounds((member for member in scored if member.config.method == "lps"), _SWITCHES):
        for values in background.groups:
            full = _full(values)
            if full is not None:
                table_by_method.setdefault((background.id, full), _table(background, full))
    return sorted(
        table_by_method.values(), key=lambda table: (-len(table.groups), -table.runs, changed_weights(table) != "")
    )


def changed_weights(table: AblationTable) -> str:
    """Return the weights of the full method that differ from the defaults."""
    parameters_of_lps = method_info("lps").parameters
    return settings_in_words(
        {key: value for key, value in zip(_SWITCHES, table.full) if value != parameters_of_lps[key].default}
    )


def _full(values: tuple) -> tuple | None:
    """Return the full method if `values` switch off at most one part; a part that is off gets its default value."""
    switches = dict(zip(_SWITCHES, values))
    switched_off = [key for key in _SWITCHES if not switches[key]]
    if len(switched_off) > 1:
        return None
    parameters_of_lps = method_info("lps").parameters
    return tuple(parameters_of_lps[key].default if key in switched_off else switches[key] for key in _SWITCHES)


def _table(background: Background, full: tuple) -> AblationTable:
    rows = [Variant(_FULL, full, background.groups.get(full))]
    for name, choices in WITHOUT.items():
        changed = [tuple((dict(zip(_SWITCHES, full)) | changes).values()) for changes in choices]
        largest_values = max(changed, key=lambda values: _count(background, values))
        rows.append(Variant(name, largest_values, background.groups.get(largest_values)))
    return AblationTable(background, full, tuple(_named(row) for row in rows))


def _named(row: Variant) -> Variant:
    """Return the row with its name as the label of its runs."""
    return replace(row, group=replace(row.group, label=row.name)) if row.group else row


def _count(background: Background, values: tuple) -> int:
    return len(background.groups[values].members) if values in background.groups else 0
