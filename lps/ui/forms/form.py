"""The launch form without its widgets: the text that the user typed, the settings that it means, and the errors.

A `Draft` stores only what differs from the defaults, as text, so that choosing another data set or method moves every
untouched field to its new default. This module writes no files.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lps.data import sources
from lps.data.sources import Source
from lps.errors import UserError, shorten
from lps.machine import devices
from lps.scheduler import preflight, submit
from lps.settings import catalog, cli_args, recipes
from lps.settings import config as settings
from lps.settings.config import GROUPS, Config, configure, parameters
from lps.settings.parameters import Parameter, text_of
from lps.store import titles
from lps.ui.shared import escape
from lps.wording import capitalized

# Keys that the page asks for outside the groups of settings.
OWN_PLACE = ("dataset", "method", "seed", "device", "epochs")
NONE = text_of(None)
LINK_KEYS = ("dataset", "method", "seeds", "name")  # in the address of the page, beside `set`
_CHOSEN = {
    "dataset": "dataset",
    "method": "method",
    "seeds": "seed",
}  # key of the link -> setting
_LEADING = ("features", "network.name")  # defaults of other settings depend on these, so they are read first
_MAXIMUM_SEEDS = 32
_MAX_CHANGED = 4  # settings that the summary names
_EFFORTS = {"stored": ["stored features"], "light": ["light"]}  # in a summary
_LABELS = {
    "split.rule": "How labels are drawn",
    "split.seed": "Split seed",
    "split.imbalance": "Imbalance of the classes",
    "split.imbalance_order": "Which classes are large",
    "split.labeled_imbalance": "Imbalance of the labels",
    "split.index_files": "Folder of index files",
    "split.num_novel": "Novel classes to look for",
    "prior.every": "Epochs between estimates",
    "prior.confidence": "Minimum confidence",
    "prior.shares": "Share of each class",
    "split.validation_ratio": "Share of labels withheld for validation",
    "split.test_ratio": "Share of images set aside for testing",
}
_SPELLED = {
    "lr": "learning rate",
    "kl": "KL",
    "num": "number of",
    "kmeans": "k-means",
    "pca": "PCA",
    "dataset": "data set",
}


@dataclass(frozen=True)
class Draft:
    """The content of the form. texts: setting key -> what was typed, only if it differs from the default."""

    dataset: str = "digits"
    method: str = "lps"
    seeds: str = "0"
    name: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)

    def with_choice(self, **changes: str) -> "Draft":
        """Return the draft after the choice of another data set or method; its defaults count as untouched.

        The path and the split belong to one data set: another one begins without them.
        """
        draft = replace(self, **changes)
        texts = self.texts
        if draft.dataset != self.dataset:
            light_texts = self.with_effort("full").texts
            texts = {
                key: text for key, text in light_texts.items() if key.partition(".")[0] not in ("dataset", "split")
            }
        defaults = default_settings(draft.dataset, draft.method, texts)
        return replace(
            draft, texts={k: v for k, v in texts.items() if k not in defaults or v.strip() != text_of(defaults[k])}
        )

    def with_text(self, key: str, text: str) -> "Draft":
        """Return the draft after `text` was typed into the field of `key`; a default counts as untouched."""
        if not text.strip() and parameters(self.method)[key].optional:
            text = NONE
        other_texts = {k: v for k, v in self.texts.items() if k != key}
        untouched = text.strip() == text_of(default_settings(self.dataset, self.method, other_texts)[key])
        return replace(self, texts=other_texts if untouched else other_texts | {key: text})

    def without(self, keys: Iterable[str]) -> "Draft":
        """Return the draft with these settings at their defaults."""
        return replace(self, texts={k: v for k, v in self.texts.items() if k not in set(keys)})

    @property
    def effort(self) -> str:
        """Return the effort (`recipes.training_efforts`) whose settings the draft has, otherwise "full"."""
        offered = recipes.training_efforts(self.dataset).items()
        matching = (
            name
            for name, effort_settings in offered
            if all(self.text(k) == text_of(v) for k, v in effort_settings.items())
        )
        return next(matching, "full")

    def with_effort(self, effort: str) -> "Draft":
        """Return the draft with the settings of another effort; settings that belong to neither effort stay."""
        if effort == self.effort:
            return self
        offered = recipes.training_efforts(self.dataset)
        draft = self.without([*offered.get(self.effort, {}), *offered.get(effort, {}), *recipes.STORED])
        for key, value in offered.get(effort, {}).items():
            draft = draft.with_text(key, text_of(value))
        return draft

    def text(self, key: str) -> str:
        """Return the text of `key`."""
        return self.texts[key] if key in self.texts else self.usual(key)

    def usual(self, key: str) -> str:
        """Return the value of `key` while its field is unchanged."""
        return text_of(default_settings(self.dataset, self.method, self.texts)[key])


@dataclass(frozen=True)
class FormReading:
    """A parsed draft: one `Config` per seed, or an error sentence for every invalid key (and then no config)."""

    configs: tuple[Config, ...]
    errors: dict[str, str]
    values: dict[str, object]  # the settings that could be read and differ from the defaults


def default_effort(draft: Draft) -> str:
    """Return the default effort on this machine for these pictures."""
    return "full" if devices.available_gpus() else _light_effort(draft)


def _light_effort(draft: Draft) -> str:
    """Return the effort that --light means here for these pictures."""
    return submit.light_effort(draft.dataset, {"dataset.path": draft.texts.get("dataset.path")})


def valid_draft(draft: Draft) -> Draft:
    """Return `draft`, or an empty one with the first working data set and method if the file of its own is broken."""
    try:
        catalog.dataset_info(draft.dataset)
        catalog.method_info(draft.method)
    except UserError:
        return Draft(next(iter(catalog.dataset_titles())), next(iter(catalog.method_titles())))
    return draft


def default_settings(dataset: str, method: str, texts: Mapping[str, str]) -> dict[str, object]:
    """Return the default settings, except what follows from the features and the network among `texts`."""
    with suppress(UserError):  # an unknown network has its sentence at its own field
        return settings.defaults(dataset, method, {key: texts[key].strip() for key in _LEADING if key in texts})
    return settings.defaults(dataset, method)


def group_by_heading(members: Iterable[Parameter]) -> dict[str, list[Parameter]]:
    """Group settings by the headings of their documentation; those without a heading last, under ""."""
    parameters_by_heading: dict[str, list[Parameter]] = {}
    for member in sorted(members, key=lambda member: not member.told.group):
        parameters_by_heading.setdefault(member.told.group, []).append(member)
    return parameters_by_heading


def group_settings(method: str) -> dict[str, list[Parameter]]:
    """Group the settings of a form by heading: the method's own first, then the protocol's by prefix."""
    method_settings = catalog.method_info(method).parameters
    parameters_by_heading: dict[str, list[Parameter]] = {"method": list(method_settings.values()), "training": []} | {
        group: [] for group in GROUPS
    }
    for key, parameter in parameters(method).items():
        prefix, dot, _ = key.partition(".")
        if key not in method_settings and key not in OWN_PLACE:
            parameters_by_heading[prefix if dot or key == "prior" else "training"].append(parameter)
    return {group: members for group, members in parameters_by_heading.items() if members}


def read_draft(draft: Draft) -> FormReading:
    """Parse `draft`: every value is checked by itself first, then all of them together."""
    documented = parameters(draft.method)
    values, errors = {}, {}
    for key, text in draft.texts.items():
        if key not in documented:
            continue  # typed for another method; it comes back with that method
        try:
            values[key] = documented[key].parse(text)
        except UserError as error:
            errors[key] = error_sentence(error)
    seeds = _collect_error(errors, lambda: parse_seeds(draft.seeds), [])
    requested_values = values | {"dataset": draft.dataset, "method": draft.method}
    configs = _collect_error(errors, lambda: tuple(configure(requested_values | {"seed": seed}) for seed in seeds), ())
    return FormReading(() if errors else configs, errors, values)


def check_reading(reading: FormReading, on_this_machine: bool = True) -> FormReading:
    """Check the configs of a reading against the data and, if they run `on_this_machine`, its devices."""
    try:
        for config in reading.configs[:1]:  # they differ in nothing but the seed
            preflight.check_config(config, on_this_machine)
    except UserError as error:
        return FormReading((), reading.errors | {error.name: error_sentence(error)}, reading.values)
    return reading


def split_config(draft: Draft) -> Config:
    """Return the part of the draft that determines the split, whatever the other fields contain; raises `UserError`."""
    documented = parameters(draft.method)
    typed = {k: v for k, v in draft.texts.items() if k in documented and k.partition(".")[0] in ("split", "dataset")}
    return configure(
        {"dataset": draft.dataset, "method": draft.method} | {k: documented[k].parse(v) for k, v in typed.items()}
    )


def source_of_images(draft: Draft) -> Source:
    """Return the images that the draft names, whatever the other fields contain; raises `UserError`."""
    documented = parameters(draft.method)
    values = {k: documented[k].parse(v) for k, v in draft.texts.items() if k.startswith("dataset.")}
    with suppress(UserError):  # a seed that does not fit is the split's matter
        values["split.seed"] = documented["split.seed"].parse(draft.text("split.seed"))
    return sources.load_arguments(configure(values | {"dataset": draft.dataset}))


def parse_seeds(text: str) -> list[int]:
    """Parse `"0, 1, 2"`, `"0 1 2"` or `"0-4"` as seeds; raises `UserError`."""
    seeds: list[int] = []
    for part in text.replace(",", " ").split():
        first, dash, last = part.partition("-")
        if not all(_is_seed(number) for number in ([first, last] if dash else [first])):
            raise UserError(
                "seed", f"{shorten(part)} is not a whole number from 0 to {2**31 - 1}, nor a range such as 0-4"
            )
        numbers = range(int(first), int(last if dash else first) + 1)
        if not 1 <= len(numbers) <= _MAXIMUM_SEEDS:
            raise UserError("seed", f"{shorten(part)} has {len(numbers)} seeds; expected 1 to {_MAXIMUM_SEEDS}")
        seeds.extend(numbers)
    if not seeds:
        raise UserError("seed", "is empty; expected one or more whole numbers such as 0, 1, 2")
    if len(set(seeds)) != len(seeds):
        raise UserError("seed", f"{shorten(text)} has a seed twice; every seed is one run")
    if len(seeds) > _MAXIMUM_SEEDS:
        raise UserError(
            "seed", f"{len(seeds)} seeds are {len(seeds)} runs; expected at most {_MAXIMUM_SEEDS} at a time"
        )
    return seeds


def error_sentence(error: UserError) -> str:
    """Return an error message without the setting's name, for a place beside its field."""
    return str(error).removeprefix(f"{error.name}: ")


def setting_label(key: str) -> str:
    """Return the label of a setting: `split.labeled_ratio` is "Labeled ratio"."""
    label = " ".join(_SPELLED.get(word, word) for word in key.rpartition(".")[2].split("_"))
    return _LABELS.get(key, capitalized(label))


def full_label(key: str) -> str:
    """Return the label with its group, for places without the heading: `network.name` is "Network name"."""
    group, _, name = key.rpartition(".")
    if key in _LABELS or group in ("", "split"):
        return setting_label(key)
    return f"{_SPELLED.get(group, group).capitalize()} {setting_label(name).lower()}"


def split_formulas(objective: str) -> list[str]:
    r"""Return the display formulas of a method's objective: "$$a, \qquad b$$ $$c$$" has three."""
    blocks = re.findall(r"\$\$(.+?)\$\$", " ".join(objective.split()))
    return [part.strip() for block in blocks for part in re.split(r",?\s*\\qquad\s*", block)]


def draft_from_config(config: Config, name: str = "") -> Draft:
    """Return the draft of `config`."""
    draft = Draft(config.dataset, config.method, str(config.seed), name)
    for key, value in sorted(config.flat().items(), key=lambda item: item[0] not in _LEADING):
        if key not in ("dataset", "method", "seed"):
            draft = draft.with_text(key, text_of(value))
    return draft


def draft_from_link(query: Mapping[str, list[str]]) -> tuple[Draft, list[str]]:
    """Return (the draft that a link describes, a sentence for each part of the link that is invalid).

    The link has `dataset`, `method`, `seeds`, `name`, and any number of `set=key=value`.
    """
    draft = Draft(name=(query.get("name") or [""])[-1])
    choices = {_CHOSEN[key]: (query.get(key) or [getattr(draft, key)])[-1] for key in _CHOSEN}
    return change_settings(draft, [*cli_args.format_settings(choices), *query.get("set", [])])


def change_settings(draft: Draft, parts: list[str]) -> tuple[Draft, list[str]]:
    """Return (`draft` with settings (`key=value`) replaced, a sentence for each invalid one).

    Data set and method are set first, since the others depend on them.
    """
    notices = []
    choices_by_key = {"dataset": catalog.dataset_names(), "method": catalog.method_names()}
    for part in sorted(parts, key=_sort_rank):
        key, _, text = part.partition("=")
        if text in choices_by_key.get(key, ()):
            draft = draft.with_choice(**{key: text})
        elif key in choices_by_key:
            notices.append(f"{shorten(text)} is not a {key} here; choices: {', '.join(choices_by_key[key])}.")
        elif key == "seed":
            draft = replace(draft, seeds=text)
        elif key in default_settings(draft.dataset, draft.method, {}) and _fits_a_widget(
            parameters(draft.method)[key], text
        ):
            draft = draft.with_text(key, text)
        else:
            notices.append(f"{shorten(part)} is not a setting of {draft.method}.")
    return draft, notices


def _sort_rank(part: str) -> int:
    """Return the position in which a part of a link is read: first what others depend on."""
    key = part.partition("=")[0]
    return 0 if key in ("dataset", "method") else 1 if key in _LEADING else 2


def link_to_draft(draft: Draft) -> dict[str, str | list[str]]:
    """Return the URL parameters that restore `draft`; none for an untouched form."""
    plain = Draft()
    query: dict[str, str | list[str]] = {
        key: getattr(draft, key) for key in LINK_KEYS if getattr(draft, key) != getattr(plain, key)
    }
    documented = parameters(draft.method)
    typed = cli_args.format_settings({key: text for key, text in draft.texts.items() if key in documented})
    return query | ({"set": typed} if typed else {})


def changed_settings(draft: Draft, shown_keys: Iterable[str]) -> list[Parameter]:
    """Return the settings that differ from the defaults, except `shown_keys` and those of the effort."""
    excluded = {*shown_keys, *recipes.training_efforts(draft.dataset).get(draft.effort, {})}
    return [changed for key, changed in parameters(draft.method).items() if key in draft.texts.keys() - excluded]


def launch_commands(draft: Draft, reading: FormReading) -> str:
    """Return the equivalent commands, one per line."""
    effort, usual = draft.effort, _light_effort(draft)
    is_light = effort != "full" and effort in (usual, "light")
    effort_settings = recipes.training_efforts(draft.dataset)[effort] if is_light else {}
    settings = {key: value for key, value in reading.values.items() if key not in effort_settings}
    settings |= (
        {"features": "live"} if is_light and effort != usual else {}
    )  # else --light would be stored features here
    options = {"light": is_light, "set": settings, "name": draft.name.strip()}
    return "\n".join(
        cli_args.format_command("launch", **cli_args.task_options(config), **options) for config in reading.configs
    )


def summarize_launch(draft: Draft, reading: FormReading) -> str:
    """Describe what a click on Launch would do, as markdown."""
    runs = len(reading.configs)
    count = "One run" if runs == 1 else f"{runs} runs"
    effort = draft.effort
    own_keys = recipes.training_efforts(draft.dataset).get(effort, {}).keys()
    changed = [titles.setting_in_words(key, value) for key, value in reading.values.items() if key not in own_keys]
    more = f" and {len(changed) - _MAX_CHANGED} more" if len(changed) > _MAX_CHANGED else ""
    changed_text = f" · changed: {escape.markdown(', '.join(changed[:_MAX_CHANGED]))}{more}" if changed else ""
    dataset = ", ".join([draft.dataset, *_EFFORTS.get(effort, ())])
    return f"**{count}** · {dataset} · {catalog.method_info(draft.method).title}{changed_text}"


def blocked_by(errors: Mapping[str, str], dataset: str = "") -> str:
    """Return why nothing can be launched: the first error and how many others. dataset: for the label of its path."""
    key, sentence = next(iter(errors.items()))
    more_text = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    name = catalog.dataset_info(dataset).path if dataset and key == "dataset.path" else setting_label(key)
    return f"{name or setting_label(key)}: {sentence}{more_text}"


def _is_seed(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text[:11]) < 2**31 and len(text) <= 10


def text_in_field(parameter: Parameter, text: str) -> str:
    """Return what a line of text shows for `text`: nothing if there is no value."""
    return "" if text == NONE and parameter.optional else text


def _fits_a_widget(parameter: Parameter, text: str) -> bool:
    """Return whether a field can show `text`: a choice or a switch cannot show an invalid one, a line of text can."""
    if not parameter.choices and parameter.kind != "bool":
        return text.isprintable() and len(text) <= 4096
    try:
        parameter.parse(text)
    except UserError:
        return False
    return True


def _collect_error(errors: dict[str, str], compute, otherwise):
    """Return the result of `compute`, or `otherwise` if it raises `UserError`; `errors` keeps the first one per key."""
    try:
        return compute()
    except UserError as error:
        errors.setdefault(error.name, error_sentence(error))
        return otherwise
