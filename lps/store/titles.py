"""Display names of runs and methods.

A setting with its value has one full name, as after `--set`: `margin_scale=5`. Titles, tables in files, headings and
messages use it. The symbol of formulas, `C=5`, is used where several runs or groups stand side by side and a title,
legend or tooltip has the full name: menus of runs, lines and rows of charts, the first column of Runs and Compare, the
line below the title of a run. The label of a field or a column, which is a setting without a value, is in words:
"Margin scale".
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from lps.errors import UserError
from lps.settings import catalog
from lps.settings.config import Config, parameters
from lps.settings.parameters import short_text, text_of
from lps.store.runs import RUN_ID, Run
from lps.wording import counted

NOT_NAMED = (  # settings that do not change results, or that the title has anyway
    *("dataset", "method", "seed", "device", "threads", "processes", "precision", "snapshot.images", "dataset.path"),
    *("split.confirmed", "network.continues", "dataset.decisions"),
)
_MAX_SETTINGS = 3  # changed settings in a title
_VALUE_LENGTH = 24  # characters of a value
_OWN_DATA = ("folder", "shards", "arrays", "embeddings")  # data sets that are named after the user's folder or file
_OF_OLD_SWEEP = re.compile(r"(\S+(?: on \S+)? seed \d+), ([\w.]+=[^,=]+(?:, [\w.]+=[^,=]+)*)")
_OF_SWEEP_0_3 = re.compile(r"^[^=]+, \S+(?: on \S+)? seed \d+$")
_OF_SWEEP = re.compile(r"(?:^|, )(\S+)(?: on \S+)? seed (\d+)(?=,|$)")  # method and seed
_PHRASES = {  # phrases for settings with an unusual key
    "split.labeled_ratio": lambda value: f"{100 * value:g} % labels",
    "split.num_novel": lambda value: counted(value, "novel class"),
    "split.num_seen": lambda value: counted(value, "seen class"),
    "dataset.image_size": lambda value: f"images scaled to {value} pixels",
    "dataset.images_per_class": lambda value: f"{counted(value, 'image')} per class",
    "features": lambda value: f"{value} features",
}
_PLAIN = {"use_margin=false": "margin off", "use_margin=true": "margin on"}  # as below the race


def run_title(run: Run) -> str:
    """Return the name that a user gave the run, else its subject, else the folder's name."""
    return run.id if not RUN_ID.fullmatch(run.id) else given_name(run) or run_subject(run)


def run_subject(run: Run) -> str:
    """Return the title of a run with an id of `create_run` that has no name: method, settings, data set and seed.

    settings: the changed ones; for a run that looks for novel classes in own data, only how many.
    """
    _, _, dataset, method, seed, _ = run.id.split("-")
    config = run.config_if_readable()
    if config and looks_in_own_data(run, config):
        changed = [setting_in_words("split.num_novel", config.split_num_novel)]
    else:
        changed = plain_words(changed_settings(run))
    return default_title(method, data_of(run, dataset), seed.removeprefix("s"), changed)


def given_name(run: Run) -> str:
    """Return the name that a user or a sweep gave the run; "" for none.

    Names of sweeps before 0.3 had the varied settings last, where narrow columns cut them: "lps seed 0,
    margin_scale=5". They are moved to the front. Those of 0.3 were in words, "margin scale 5, lps seed 0"; they become
    the full names of today. A name of a sweep has the method as on the command line, which becomes its title.
    """
    name = run.meta()["name"]
    if match := _OF_OLD_SWEEP.fullmatch(name):
        name = f"{match[2]}, {match[1]}"
    config = run.config_if_readable() if _OF_SWEEP.search(name) else None
    if config is None or not is_of_sweep(name, config):
        return name
    name = _with_method_title(name)
    if not _OF_SWEEP_0_3.search(name):
        return name
    words = {_in_words_of_0_3(key, value): setting_in_words(key, value) for key, value in config.flat().items()}
    return ", ".join(words.get(part, part) for part in name.split(", "))


def _with_method_title(name: str) -> str:
    """Return the name of a run of a sweep with the title of its method: "orca seed 0" becomes "ORCA seed 0"."""
    return _OF_SWEEP.sub(lambda found: found[0].replace(found[1], method_title(found[1]), 1), name)


def data_of(run: Run, dataset: str) -> str:
    """Return the data of the run: the name of a user's own folder or file, else the data set's name."""
    config = run.config_if_readable() if dataset in _OWN_DATA else None
    return Path(config.dataset_path).stem if config and config.dataset_path else dataset


def looks_in_own_data(run: Run, config: Config) -> bool:
    """Return whether the run looks for novel classes in own data and is no part of a sweep."""
    is_own = config.dataset in _OWN_DATA and config.split_num_novel is not None
    return is_own and not is_of_sweep(run.meta()["name"], config)


def default_title(method: str, dataset: str, seed: int | str, changed: Sequence[str] = ()) -> str:
    """Return the title of a run without a name. changed: its settings that are not the default, which come first."""
    return f"{', '.join([method_title(method), *changed])} on {dataset}, seed {seed}"


def without_paths(words: Sequence[str]) -> list[str]:
    """Return the words without paths: titles are in exported files, which should not name folders of this machine."""
    return [word for word in words if not set("/\\") & set(word)]


def plain_words(words: Sequence[str]) -> list[str]:
    """Return settings such as "margin_scale=5" without paths, the switch of the margin as "margin off"."""
    return [_PLAIN.get(word, word) for word in without_paths(words)]


def changed_settings(run: Run, compared_runs: Sequence[Run] = ()) -> list[str]:
    """Return the settings of a run that differ from the defaults of its method and data set, those of the method first.

    They are words such as "margin_scale=5". Settings that all of `compared_runs` share are left out; "…" stands for
    settings beyond the limit.
    """
    config = run.config_if_readable()
    if config is None:
        return []
    try:
        names = [name for name in config.changed if name not in NOT_NAMED]
    except UserError:  # its data set or method is gone or broken; the run can still be read
        return []
    others = [other.config_if_readable() for other in compared_runs if other.id != run.id]
    if others := [other for other in others if other]:
        names = [name for name in names if any(other.get(name) != config.get(name) for other in others)]
    names = _sort_settings(names, config)
    words = [setting_in_words(name, config.get(name)) for name in names[:_MAX_SETTINGS]]
    return [*words, *["…"] * (len(names) > _MAX_SETTINGS)]


def notable_settings(run: Run) -> list[str]:
    """Return the settings for the line below the title of a run, as in formulas: "C=10", "w=1".

    Those in a name of a sweep, which may have their default, come before the other changed ones; "…" as in
    `changed_settings`.
    """
    config = run.config_if_readable()
    if config is None:
        return []
    words_of_name = given_name(run).split(", ") if is_of_sweep(run.meta()["name"], config) else []
    varied = [key for key, value in config.flat().items() if setting_in_words(key, value) in words_of_name]
    words = [setting_in_words(key, config.get(key)) for key in _sort_settings(varied, config)]
    words += [word for word in changed_settings(run) if word not in words]
    return [settings_in_symbols(word, config) for word in words]


def setting_in_words(name: str, value: object) -> str:
    """Return a setting as on the command line, "margin_scale=5"; a few in words, "10 % labels". Long values are cut."""
    if name in _PHRASES and value is not None:
        return _PHRASES[name](value)
    text = short_text(value)
    return f"{name}={text if len(text) <= _VALUE_LENGTH else '…' + text[-_VALUE_LENGTH:]}"


def _in_words_of_0_3(name: str, value: object) -> str:
    """Return a setting as in stored names of sweeps up to 0.3.0: "margin scale 5", "without margin"."""
    spelled_name = (name if name == "split.seed" else name.removeprefix("split.")).replace("_", " ").replace(".", " ")
    if isinstance(value, bool):
        return f"{'with' if value else 'without'} {spelled_name.removeprefix('use ')}"
    return f"{spelled_name} {text_of(value)}"


def setting_in_symbols(method: str, name: str, value: object) -> str:
    """Return a setting as in formulas, "C=10"; in words if its method has no symbol for it."""
    try:
        documented = parameters(method).get(name)
    except UserError:  # the method is gone
        documented = None
    sign = documented.sign if documented else ""
    return f"{sign}={short_text(value)}" if sign else setting_in_words(name, value)


def name_in_symbols(name: str, config: Config, varied: Sequence[str] = ()) -> str:
    """Shorten a name of a sweep for a narrow column: "margin_scale=5, LPS seed 0" becomes "C=5, LPS seed 0".

    varied: settings in which runs of the table differ. The title of a run without a name begins with them: "C=5, LPS
    seed 0 on digits".
    """
    if is_of_sweep(name, config):
        return _with_method_title(settings_in_symbols(name, config))
    method = method_title(config.method)
    data = name.removesuffix(f", seed {config.seed}").rpartition(" on ")[2]
    if not name.startswith(method) or not name.endswith(f" on {data}, seed {config.seed}"):
        return name
    try:
        keys = _sort_settings([key for key in config.changed if key in varied and key not in NOT_NAMED], config)
    except UserError:  # its data set or method is gone or broken
        return name
    word_by_key = {key: setting_in_symbols(config.method, key, config.get(key)) for key in keys}
    epochs = [word for key, word in word_by_key.items() if key == "epochs"]  # recordings and trials often have fewer
    words = [word for word in word_by_key.values() if word not in epochs]
    return ", ".join([*plain_words(words), f"{method} seed {config.seed} on {data}", *epochs]) if keys else name


def _sort_settings(keys: Sequence[str], config: Config) -> list[str]:
    """Return the settings of the method first, then those of the split."""
    return sorted(keys, key=lambda key: (key not in config.hyperparameters, not key.startswith("split.")))


def settings_in_symbols(label: str, config: Config) -> str:
    """Return the label of a run or group with its settings as in formulas: "LPS, margin_scale=5" becomes "LPS, C=5"."""
    symbol_by_words = {
        describe(key, value): setting_in_symbols(config.method, key, value)
        for describe in (setting_in_words, _in_words_of_0_3)
        for key, value in config.hyperparameters.items()
    }
    return ", ".join(symbol_by_words.get(part, part) for part in label.split(", "))


def symbols(method: str) -> dict[str, str]:
    """Return symbol -> setting of a method: "C" is margin_scale; empty if the method does not exist any more."""
    try:
        return {documented.sign: name for name, documented in parameters(method).items() if documented.sign}
    except UserError:
        return {}


def explain_symbols(labels: Iterable[str], methods: Iterable[str]) -> str:
    """Explain the symbols in labels such as "C=5, w=1": "C = margin_scale, w = entropy_weight"; "" without any."""
    used = {part.partition("=")[0] for label in labels for part in label.split(", ") if "=" in part}
    pairs = [pair for method in dict.fromkeys(methods) for pair in symbols(method).items() if pair[0] in used]
    return ", ".join(dict.fromkeys(f"{symbol} = {name}" for symbol, name in pairs))


def is_of_sweep(name: str, config: Config) -> bool:
    """Return whether a sweep gave this name: "margin_scale=5, lps seed 0"; before 0.3 "lps seed 0, margin_scale=5"."""
    methods = config.method, method_title(config.method)
    return any(method in methods and seed == str(config.seed) for method, seed in _OF_SWEEP.findall(name))


def method_title(name: str) -> str:
    """Return the display name of a method; the name itself if the method does not exist any more."""
    try:
        return catalog.method_info(name).title if name else ""
    except UserError:
        return name


def run_label(run: Run) -> str:
    """Return the title with the end of the id, short and unique. A recording has its own name and "(recorded)"."""
    if run.is_recorded:
        return f"{run_title(run)} (recorded)"
    return f"{run_title(run)} ({short_id(run.id)})" if RUN_ID.fullmatch(run.id) else run.id


def short_id(name: str) -> str:
    """Return the end of a run's id, which commands accept; the whole name if it is not a run id."""
    return name[-6:] if RUN_ID.fullmatch(name) else name
