"""Which runs a sweep is made of: a grid, a list or a random draw of settings, checked and laid out."""

import itertools
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from lps.errors import UserError, check_choice, shorten
from lps.settings import catalog, cli_args
from lps.settings.config import Config, configure, parameters, protocol_parameters

MODES = {
    "grid": "every combination",
    "list": "one combination of all first values, one of all second values, and so on",
    "random": "random combinations of the grid, drawn with a seed",
}
MAX_RUNS = 2000
OPTION_OF_SETTING = {"dataset": "--dataset", "method": "--method", "seed": "--seeds"}
_BEFORE_TRAINING = ("dataset.", "split.", "network.", "pretrain.", "device", "processes", "threads", "precision")


@dataclass(frozen=True)
class SweepSpec:
    """The plan of a sweep, as on the command line: values are texts until the method is known.

    fixed: the text of a setting. varied: the texts of a setting, combined as `mode` says. Data sets, methods and seeds
    are crossed with every combination. samples, sample_seed: number of combinations that `random` draws, and its seed.
    """

    datasets: tuple[str, ...] = ("digits",)
    methods: tuple[str, ...] = ("lps",)
    seeds: tuple[int, ...] = (0,)
    fixed: Mapping[str, str] = field(default_factory=dict)
    varied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mode: str = "grid"
    samples: int | None = None
    sample_seed: int = 0

    def as_record(self) -> dict:
        """Return the layout as JSON for `sweep_records`."""
        return {"layout": json.loads(json.dumps(asdict(self)))}

    def command(self, name: str = "") -> str:
        """Return the command that starts the sweep."""
        lists = {"dataset": self.datasets, "method": self.methods, "seeds": self.seeds}
        options = {key: cli_args.join_values(values) for key, values in lists.items()}
        varied = {key: ("," if "," not in "".join(texts) else "|").join(texts) for key, texts in self.varied.items()}
        sampling = {"samples": self.samples, "sample_seed": self.sample_seed} if self.samples else {}
        other_options = {"set": self.fixed, "vary": varied, "mode": self.mode != "grid" and self.mode} | sampling
        return cli_args.format_command("sweep", **options, **other_options, name=name)


# ---------------------------------------------------------------------------------------------------- layout


def read_layout(
    datasets: str, methods: str, seeds: str, fixed: Sequence[str] = (), varied: Sequence[str] = (), **more
) -> SweepSpec:
    """Parse a sweep: comma-separated names and seeds, texts NAME=VALUE and NAME=VALUE,VALUE.

    methods: also "all". A setting that is varied twice has the values of both. more: mode, samples, sample_seed.
    Raises `UserError`.
    """
    fixed_settings = parse_assignments(fixed)
    values_by_name: dict[str, tuple[str, ...]] = {}
    for name, text in (_assignment(text, "--vary") for text in varied):
        values_by_name[name] = values_by_name.get(name, ()) + split_values(name, text)
    method_names = catalog.method_names() if methods.strip() == "all" else _split_list(methods)
    seed = protocol_parameters()["seed"]
    numbers = tuple(seed.parse(text) for text in _split_list(seeds))
    return SweepSpec(tuple(_split_list(datasets)), tuple(method_names), numbers, fixed_settings, values_by_name, **more)


def parse_assignments(texts: Sequence[str]) -> dict[str, str]:
    """Parse texts NAME=VALUE into a dict; raises `UserError`, also for a repeated name."""
    text_by_name: dict[str, str] = {}
    for name, text in (_assignment(text, "--set") for text in texts):
        if name in text_by_name:
            raise UserError(
                name, f"is set twice, to {shorten(text_by_name[name])} and to {shorten(text)}; name it once"
            )
        text_by_name[name] = text
    return text_by_name


def split_values(name: str, text: str) -> tuple[str, ...]:
    """Split "0.1,0.2" into its values; "0,1,2|3,4,5" has two with commas; raises `UserError` for empty ones."""
    values = tuple(part.strip() for part in text.split("|" if "|" in text else ","))
    if not all(values):
        raise UserError(name, f'{shorten(text)} has an empty value; expected values such as 1,2 (or "none")')
    return values


def combinations(
    varied: Mapping[str, tuple[str, ...]], mode: str = "grid", samples: int | None = None, sample_seed: int = 0
) -> list[dict[str, str]]:
    """Return one text per varied setting for every combination; the last setting changes fastest.

    A `random` draw of more samples with the same seed begins with those of fewer. Raises `UserError`.
    """
    check_choice("mode", mode, MODES)
    if (samples is None) == (mode == "random"):
        raise UserError(
            "samples", "needs a number of combinations with --mode random" if samples is None else "need --mode random"
        )
    if mode == "random":
        return _random_combinations(
            {name: tuple(dict.fromkeys(values)) for name, values in varied.items()}, samples, sample_seed
        )
    if mode == "list":
        return _paired_combinations(varied)
    check_size(_grid_size(varied))
    return [dict(zip(varied, values)) for values in itertools.product(*varied.values())]


def _paired_combinations(varied: Mapping[str, tuple[str, ...]]) -> list[dict[str, str]]:
    lengths = {name: len(values) for name, values in varied.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise UserError(
            "vary", f"--mode list combines values in order, so all settings need the same number of values; {counts}"
        )
    return [dict(zip(varied, values)) for values in zip(*varied.values())] if varied else [{}]


def _random_combinations(varied: Mapping[str, tuple[str, ...]], samples: int, seed: int) -> list[dict[str, str]]:
    total = _grid_size(varied)
    if not 1 <= samples <= total:
        raise UserError("samples", f"{samples} is not a whole number from 1 to {total}, the size of the grid")
    check_size(samples)
    generator = random.Random(seed)
    positions: dict[int, None] = {}
    while len(positions) < samples:
        positions[generator.randrange(total)] = None
    return [_combination_at(varied, position) for position in positions]


def _combination_at(varied: Mapping[str, tuple[str, ...]], position: int) -> dict[str, str]:
    """Return the combination at `position` of the grid, without building the grid."""
    settings = {}
    for name, values in reversed(varied.items()):
        position, digit = divmod(position, len(values))
        settings[name] = values[digit]
    return {name: settings[name] for name in varied}


def _grid_size(varied: Mapping[str, tuple[str, ...]]) -> int:
    return math.prod(len(values) for values in varied.values())


def plan_runs(layout: SweepSpec) -> list[Config]:
    """Return a checked config for every distinct run, seed by seed: after the first seed, every table row has a number.

    Settings that a method does not have, or that cannot affect it because it trains nothing, are left out for it: they
    would plan the same run several times. Raises `UserError`.
    """
    _check_names(layout)
    settings_of_runs = combinations(layout.varied, layout.mode, layout.samples, layout.sample_seed)
    check_size(len(settings_of_runs) * len(layout.seeds) * len(layout.datasets) * len(layout.methods))
    config_by_identity: dict[str, Config] = {}
    for seed, dataset, method in itertools.product(layout.seeds, layout.datasets, layout.methods):
        documented = parameters(method)
        for texts in ({**layout.fixed, **combination} for combination in settings_of_runs):
            relevant = {
                name: text for name, text in texts.items() if name in layout.fixed or affects_result(name, method)
            }
            values = {name: documented[name].parse(text) for name, text in relevant.items() if name in documented}
            config = configure({"dataset": dataset, "method": method, "seed": seed} | values)
            config_by_identity.setdefault(config.to_json(), config)
    return list(config_by_identity.values())


def affects_result(name: str, method: str) -> bool:
    """Return whether a setting can change the result of the method."""
    info = catalog.method_info(method)
    return info.trains or name in info.parameters or name.startswith(_BEFORE_TRAINING)


def redundant_requests(layout: SweepSpec) -> list[str]:
    """Return one sentence for each request that creates no run, or a run with the same result as another one."""
    parameters_by_method = {method: parameters(method) for method in layout.methods}
    parameter_by_name = {name: p for method in layout.methods for name, p in parameters_by_method[method].items()}
    sentences = []
    for name, texts in layout.varied.items():
        parsed = [parameter_by_name[name].parse(text) for text in texts]
        unaffected = [
            catalog.method_info(m).title
            for m in layout.methods
            if not (name in parameters_by_method[m] and affects_result(name, m))
        ]
        switches = {parameters_by_method[m][name].told.needs for m in layout.methods if name in parameters_by_method[m]}
        if len(parsed) == 1:
            sentences.append(f"{name} has only one value, so it does not vary")
        elif layout.mode != "list" and len(set(parsed)) < len(parsed):
            sentences.append(f"{name} has a value twice: {', '.join(texts)}; duplicates are ignored")
        if unaffected and len(parsed) > 1:
            sentences.append(
                f"{', '.join(unaffected)}: {name} has no effect here, so one run stands for all its values"
            )
        for switch in switches if len(parsed) > 1 else ():
            if "false" in (*layout.varied.get(switch, ()), layout.fixed.get(switch)):
                sentences.append(
                    f"runs with {switch}=false do not use {name}, so all values of {name} give the same run"
                )
    rows = list(zip(*layout.varied.values())) if layout.mode == "list" else []
    if len(set(rows)) < len(rows):
        sentences.append(f"duplicates among the {len(rows)} combinations: {len(rows) - len(set(rows))}")
    return sentences + [
        f"{name}={text} is the default, so it changes nothing"
        for name, text in layout.fixed.items()
        if name != "threads" and _is_default(layout, name)  # threads=none differs from a sweep that says nothing
    ]


def _is_default(layout: SweepSpec, name: str) -> bool:
    """Return whether a fixed setting has its default value in all runs."""
    other_settings = {key: text for key, text in layout.fixed.items() if key != name}
    for dataset, method in itertools.product(layout.datasets, layout.methods):
        documented = parameters(method)
        setting_pairs = [
            {key: documented[key].parse(text) for key, text in settings.items() if key in documented}
            for settings in (layout.fixed, other_settings)
        ]
        try:
            values = [
                configure({"dataset": dataset, "method": method} | settings).get(name) for settings in setting_pairs
            ]
        except UserError:  # it is needed
            return False
        if values[0] != values[1]:
            return False
    return True


def _check_names(layout: SweepSpec) -> None:
    """Check that every setting belongs to a method, has no own option, and is either set or varied."""
    known_names = {name: None for method in layout.methods for name in parameters(method)}
    for name in (*layout.fixed, *layout.varied):
        if name in OPTION_OF_SETTING:
            raise UserError(name, f"cannot be set or varied by name; use {OPTION_OF_SETTING[name]}")
        if name not in known_names:
            methods = ", ".join(layout.methods)
            raise UserError(
                shorten(name).strip("'\""),
                f"is not a setting of {methods}; choices: {', '.join(map(str, known_names))}",
            )
        if name in layout.fixed and name in layout.varied:
            raise UserError(name, "is both set and varied; choose one")


def check_size(count: int) -> None:
    if count > MAX_RUNS:
        raise UserError(
            "sweep", f"{count:,} runs are more than {MAX_RUNS:,}; remove values or draw random combinations"
        )


def _assignment(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(option, f"{shorten(text)} is not of the form name=value")
    return name.strip(), value.strip()


def _split_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]
