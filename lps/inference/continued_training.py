"""Continue training with cluster names: a new run with the labels of the first run and those that the user confirmed.

A named cluster becomes a seen class, or adds images to the seen class of that name; merged clusters count as one.
Images of rejected clusters, images that the user removed from their cluster, and images with withheld labels stay
unlabeled. This module never reads the true classes.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from lps.analysis import naming
from lps.analysis.clusters import cluster_indices
from lps.analysis.labels import LabelCheck, read_clusters
from lps.analysis.naming import Naming
from lps.data.classes import Classes
from lps.data.confirmed_labels import Confirmed
from lps.errors import UserError, check_choice
from lps.scheduler import submit
from lps.settings import given_prior
from lps.settings.config import Config, configure
from lps.store import inherited_files
from lps.store.events import read_history
from lps.store.runs import Run
from lps.store.titles import run_title
from lps.wording import capitalized, counted, first_of, listed

RULES = {  # which images of a named cluster count as labeled
    "all": "all pictures of the named clusters",
    "confident": "pictures of which the model is at least this sure, and all pictures that you assigned one by one",
    "looked-at": "only pictures that you assigned one by one",
}
CONFIDENCE = 0.9
FIRST_STEP = "Name a cluster or assign a picture first"  # of a user without decisions that give a label
_MAX_NAMED = 16  # classes or clusters in a sentence
_NAME_LIMIT = 120  # characters of the name of a run
# What a continued run has in its name beside that of the run before; up to 0.3.0 at the end, which columns cut.
_ADDITION = re.compile("^With [0-9,]+ (more )?(name|picture)s?, |, trained on( again)? with [0-9,]+ (name|picture)s?$")
_FIXED = ("dataset", "method", "split", "features")  # settings that the runs of a chain share, by name or group
_SPREADING = {"use_margin": False, "entropy_weight": 0.0, "prior_weight": 0.0}  # values that switch the terms off
_TERMS = {"use_margin": "margin", "entropy_weight": "entropy term", "prior_weight": "prior term"}
_OWN = ("network.continues", "network.name", "network.start", "network.checkpoint")


@dataclass(frozen=True)
class TrainingPlan:
    """A run that would continue another one.

    config: its settings; confirmed: its labels; weights: the checkpoint to start from, None for the start weights. new,
    added: classes that become seen, and seen classes that get more labels. without_labels: named clusters of which no
    image becomes labeled. novel: number of clusters without a name that stay novel; looked_for: number of novel classes
    that the run looks for. aside: number of images that the user removed from their cluster. dissolved: number of
    clusters that no class of the new run continues. labeled: number of labeled images by class name. classes_in_words:
    which clusters become which class. renamed: the seen class whose cluster has this new name, by name.
    """

    parent: Run
    config: Config
    confirmed: Confirmed
    weights: Path | None
    new_classes: tuple[str, ...]
    added: tuple[str, ...]
    without_labels: tuple[str, ...]
    novel: int
    looked_for: int
    aside: int
    dissolved: int = 0
    labeled: Mapping[str, int] = field(default_factory=dict)
    classes_in_words: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)

    def in_words(self) -> str:
        """ "4 names: 3 new seen classes, 431 new labeled pictures; 2 clusters without a name and 1 name stay novel"."""
        names = f"{counted(self.confirmed.named, 'name')}: {counted(len(self.new_classes), 'new seen class')}"
        parts = [names] if self.confirmed.named else []
        parts += [f"more labels for {counted(len(self.added), 'class')}"] if self.added else []
        sentence = ", ".join([*parts, counted(self.confirmed.pictures, "new labeled picture")])
        waiting = len(self.without_labels)
        novel = [f"{counted(self.novel, 'cluster')} without a name"] if self.novel else []
        novel += [f"{counted(waiting, 'name')} without labeled pictures"] if waiting else []
        stay = "stays" if self.novel + waiting == 1 else "stay"
        others = [f"{' and '.join(novel)} {stay} novel"] if novel else []
        are = "is not a class" if self.dissolved == 1 else "are not classes"
        others += [f"{counted(self.dissolved, 'cluster')} {are}"] if self.dissolved else []
        others += [f"1 novel class is {inherited_files.FREE}"] if self.keeps_free else []
        return f"{sentence}; {', '.join(others)}" if others else sentence

    @property
    def keeps_free(self) -> bool:
        """Return whether the run looks for a novel class only because it needs at least one."""
        return self.looked_for > self.novel + len(self.without_labels)

    @property
    def switched_off(self) -> dict[str, object]:
        """Return the settings that switch off the terms that would fill the free class."""
        hyperparameters = self.config.hyperparameters
        without = _without_spreading(hyperparameters) if self.keeps_free else {}
        return {key: value for key, value in without.items() if hyperparameters[key] == value}

    @property
    def without_terms(self) -> str:
        """Return the notice on `switched_off`; "" if nothing is."""
        if not self.switched_off:
            return ""
        terms = listed([f"without the {_TERMS[key]}" for key in self.switched_off])
        return f"The new run trains {terms}, so that the free class is not filled with pictures of other classes."

    def notices(self) -> list[str]:
        """Return warnings that do not block the start, one sentence each."""
        sentences = []
        if self.without_labels:
            named = first_of(self.without_labels, 3)
            sentences.append(f"With this choice, these names get no labeled pictures and stay novel: {named}.")
        for name, seen_class in self.renamed.items():
            sentences.append(
                f"{name} becomes a new class beside {seen_class}, because no seen class has this name. If both are the "
                "same class, remove the name."
            )
        if self.without_terms:
            sentences.append(self.without_terms)
        if (
            self.new_classes
            and self.config.prior == "given"
            and self.config.prior_shares == self.parent.config().prior_shares
        ):
            shares = given_prior.shares_of(self.config.prior_shares)[-self.looked_for - len(self.new_classes) :]
            expected = first_of([f"{name} {share:.3g}" for name, share in zip(self.new_classes, shares)], 3)
            sentences.append(
                f"The new run uses prior.shares of the previous run, so these are the expected shares of the new "
                f"seen classes: {expected}. If they are wrong, set prior.shares again, with the shares of the seen "
                "classes first."
            )
        if self.aside:
            stay = "stays" if self.aside == 1 else "stay"
            sentences.append(
                f"{counted(self.aside, 'picture')} that you removed from a class {stay} unlabeled. The new run does "
                "not know that you removed them and may predict the same class again."
            )
        return sentences


def plan_continued_training(
    run: Run,
    epoch: int | None = None,
    *,
    rule: str = "confident",
    threshold: float = CONFIDENCE,
    from_weights: bool = True,
    changes: Mapping[str, object] = MappingProxyType({}),
    unnamed: Mapping[int, int | None] = MappingProxyType({}),
) -> TrainingPlan:
    """Plan the run that continues from the names of an epoch (default: the newest epoch with names).

    changes: settings that differ from the first run, by key. unnamed: what happens to clusters without a name, by id:
    the named cluster that they are merged into, or None to dissolve them. Images of a dissolved cluster stay unlabeled
    and no class continues it, so a cluster of leftovers does not become a class. All other unnamed clusters stay novel.

    Raises `UserError` if there is nothing to train with, if a setting cannot be changed, or if a cluster of `unnamed`
    has a name or does not exist.
    """
    _check_options(run, rule, threshold, changes)
    label_check = _merge_unnamed(read_clusters(run, epoch), unnamed)
    if label_check.decisions.gives_no_label:
        remedy = "name clusters on the page Clusters, or with python -m lps name"
        raise UserError("names", f"do not exist at epoch {label_check.epoch}; {remedy}")
    images, class_of_image, new_classes, without_labels = _labels(label_check, rule, threshold)
    if not len(images):
        raise UserError("labels", _why_no_labels(label_check, rule, threshold))
    split, defaults = label_check.split, label_check.defaults
    seen = split.classes.seen + len(new_classes)
    origins = _origins(label_check, images, class_of_image, [*new_classes.values()])
    free = without_name(label_check.ids, defaults, label_check.decisions)
    dissolved = [cluster for cluster, target in unnamed.items() if target is None and cluster not in origins]
    novel = [cluster for cluster in free if cluster not in {*origins, *dissolved}]
    if defaults:
        num_novel = max(1, len(novel) + len(without_labels))
    else:  # some clusters without a name are seen classes
        num_novel = max(1, len(label_check.ids) - seen - len(free) + len(novel))
    confirmed = replace(
        _confirm(run, label_check, images, class_of_image, new_classes, rule, threshold),
        rows=_rows(split.classes, origins, novel, seen + num_novel),
    )
    weights = _checkpoint(run, label_check.epoch) if from_weights else None
    overrides = {"split.num_novel": num_novel, "split.confirmed": confirmed.digest, "network.continues": None}
    if weights is not None:
        overrides["network.continues"] = inherited_files.weights_name(run.read_json(f"checkpoints/{weights.stem}.json"))
    config = configure(run.config().flat() | _spreading(run, bool(novel or without_labels)) | dict(changes) | overrides)
    names = [*split.class_names[: split.classes.seen], *new_classes]
    _check_shares(config, names, len(new_classes), num_novel)
    return TrainingPlan(
        run,
        config,
        confirmed,
        weights,
        new_classes=tuple(new_classes),
        added=tuple(sorted({split.class_names[i] for i in class_of_image.tolist() if i < split.classes.seen})),
        without_labels=tuple(without_labels),
        novel=min(len(novel), num_novel),
        looked_for=num_novel,
        aside=len(label_check.decisions.unlabeled),
        dissolved=len(dissolved),
        labeled={name: count for name, count in zip(names, np.bincount(class_of_image).tolist()) if count},
        classes_in_words=_classes_in_words(label_check, unnamed, names, novel, dissolved),
        renamed=_renamed(label_check, new_classes),
    )


def _confirm(
    run: Run,
    label_check: LabelCheck,
    images: np.ndarray,
    class_of_image: np.ndarray,
    new_classes: Iterable[str],
    rule: str,
    threshold: float,
) -> Confirmed:
    """Return the labels of these images with those that the user confirmed before, still without `rows`."""
    before, decisions = inherited_files.read_confirmed(run), label_check.decisions
    cluster_of_image = label_check.cluster[np.searchsorted(label_check.split.unlabeled, images)]
    num_decisions = len(naming.entries_in_effect(naming.read_entries(run), label_check.epoch))
    return Confirmed(
        *_join_labels(before, images, class_of_image),
        names=(*(before.names if before else ()), *new_classes),
        rows=np.zeros(0, np.int64),
        parent=run.id,
        epoch=label_check.epoch,
        rule=rule,
        threshold=threshold if rule == "confident" else 0.0,
        pictures=len(images),
        named=len(decisions.names.keys() & set(label_check.ids) - decisions.rejected),
        decisions=num_decisions + (before.decisions if before else 0),
        added_to_seen=int((~np.isin(cluster_of_image, [*decisions.names])).sum()),
    )


def _renamed(label_check: LabelCheck, new_classes: Mapping[str, int]) -> dict[str, str]:
    """Return new class -> the seen class whose cluster has this new name. new_classes: name -> cluster."""
    defaults = label_check.defaults
    used_names = {name.casefold() for name in label_check.decisions.names.values()}
    return {
        name: defaults[cluster]
        for name, cluster in new_classes.items()
        if defaults.get(cluster, name).casefold() not in used_names
    }


def _check_shares(config: Config, names: list[str], num_new: int, num_novel: int) -> None:
    """Raise `UserError` unless the given prior has a share for each class. names: the new seen classes come last."""
    if config.prior != "given":
        return
    count, total = len(given_prior.shares_of(config.prior_shares)), len(names) + num_novel
    if count != total:
        num_old = len(names) - num_new
        classes = [*names[:num_old], *(f"{name} (new)" for name in names[num_old:])]
        raise UserError(
            given_prior.SHARES,
            f"has {count} shares for {total} classes; expected one for each of {', '.join(_shortened(classes))}, then "
            f"{counted(num_novel, 'novel class')}. Change the names of clusters, or use python -m lps train-on with "
            f"--set {given_prior.SHARES}=...",
        )


def _classes_in_words(
    label_check: LabelCheck, unnamed: Mapping[int, int | None], names: list[str], novel: list[int], dissolved: list[int]
) -> str:
    """Say which clusters become which class: "The new run learns cat; frog from clusters 5 and 7. Cluster 8 stays ...".

    names: the classes of the new run that have labels.
    """
    decisions, root_by_name = label_check.decisions, {}
    for root in label_check.ids:
        name = decisions.names.get(root) or label_check.defaults.get(root)
        if name and root not in decisions.rejected:
            root_by_name[name.casefold()] = root
    as_before, changed = [], []
    for name in names:
        root = root_by_name.pop(name.casefold(), None)
        parts = [] if root is None else decisions.parts(root)
        parts += [part for part, target in unnamed.items() if target is not None and target == root]
        origins = {*label_check.network.predicted[label_check.cluster == root].tolist(), *decisions.created_clusters}
        parts = [part for part in parts if part in origins]  # without those whose images were all split off
        is_own_class = label_check.defaults.get(root, "").casefold() == name.casefold()
        if root is None or (is_own_class and not parts):
            as_before.append(name)
        else:
            changed.append(f"{name} from {_clusters_in_words(label_check, [root, *parts])}")
    learned = "; ".join([*[listed(_shortened(as_before))] * bool(as_before), *_shortened(changed)])
    sentence, waiting = f"The new run learns {learned}.", [*novel * bool(label_check.defaults), *root_by_name.values()]
    for clusters, one, many in (
        (waiting, "stays novel", "stay novel"),
        (dissolved, "is not a class", "are not classes"),
    ):
        if clusters:
            fate = one if len(clusters) == 1 else many
            sentence += f" {capitalized(_clusters_in_words(label_check, clusters))} {fate}."
    return sentence


def _clusters_in_words(label_check: LabelCheck, clusters: list[int]) -> str:
    """Return "clusters 5, 7 and 10 (split off from 7)": where most images of a cluster were that the user made."""
    split, decisions, texts = label_check.split, label_check.decisions, []
    for cluster in sorted(clusters):
        moved = [image for image, target in decisions.moved.items() if target == cluster]
        rows = cluster_indices(np.array(moved, np.int64), split.unlabeled)
        origins = label_check.network.predicted[rows[rows >= 0]]
        is_part = cluster in decisions.created_clusters and len(origins)
        texts.append(f"{cluster} (split off from {np.bincount(origins).argmax()})" if is_part else str(cluster))
    noun = "cluster" if len(texts) == 1 else "clusters"
    return f"{noun} {listed(_shortened(texts))}"


def _shortened(texts: list[str]) -> list[str]:
    """Return all texts; of more than `_MAX_NAMED`, the first ones and the number of the others."""
    left = len(texts) - _MAX_NAMED
    return [*texts[:_MAX_NAMED], f"{left} more"] if left > 0 else texts


def without_name(ids: Iterable[int], defaults: Mapping[int, str], decisions: Naming) -> list[int]:
    """Return the clusters of `ids` without a name: no seen class (`defaults`), and not named or rejected later."""
    named = {*defaults, *(decisions.names.keys() - decisions.rejected)}
    return [cluster for cluster in ids if cluster not in named]


def _merge_unnamed(label_check: LabelCheck, unnamed: Mapping[int, int | None]) -> LabelCheck:
    """Merge clusters as `unnamed` says; raises `UserError` if it names a wrong cluster."""
    free = without_name(label_check.ids, label_check.defaults, label_check.decisions)
    named = [number for number in label_check.ids if number not in (*free, *label_check.decisions.rejected)]
    cluster = label_check.cluster.copy()
    for source, target in unnamed.items():
        if source not in free:
            choices = f"clusters without a name: {_list_in_words(free)}"
            raise UserError("cluster", f"{source} has a name or does not exist; {choices}")
        if target is not None and target not in named:
            choices = f"clusters with a name: {_list_in_words(named)}"
            raise UserError("cluster", f"{target} has no name, so nothing can be merged into it; {choices}")
        if target is not None:
            cluster[cluster == source] = target
    ids = tuple(number for number in label_check.ids if unnamed.get(number) is None)
    return replace(label_check, cluster=cluster, ids=ids)


def _list_in_words(clusters: list[int]) -> str:
    return first_of(clusters, 20) or "none"


def _spreading(run: Run, has_novel: bool) -> dict[str, object]:
    """Return the settings that keep all classes in use: off if every cluster has a name, else those of the first run.

    The first run is the one that the chain began with. If every cluster has a name, equal shares are wrong for the
    additional novel class: it would be filled with images of other classes.
    """
    passed = set()
    while has_novel and (parent := Run(run.root / inherited_files.parent_of(run))).config_if_readable():
        if parent.id in passed:
            break
        passed.add(parent.id)
        run = parent
    hyperparameters = run.config().hyperparameters
    switched_off = _without_spreading(hyperparameters)
    return {key: hyperparameters[key] for key in switched_off} if has_novel else switched_off


def _without_spreading(hyperparameters: Mapping[str, object]) -> dict[str, object]:
    """Return the settings among `hyperparameters` that switch off the terms that keep all classes in use."""
    return {key: value for key, value in _SPREADING.items() if key in hyperparameters}


def start_continued_training(
    planned: TrainingPlan, root: Path | None = None, name: str = "", token: str | None = None
) -> Run:
    """Create the folder of a planned run beside its parent or in `root`, and launch the run; raises `UserError`.

    token: see `create_run`.
    """

    def bring(folder: Path) -> None:
        inherited_files.write_inherited(folder, planned.confirmed, planned.weights)

    title, is_continued = _ADDITION.subn("", run_title(planned.parent))
    count, noun = planned.confirmed.named, "name"
    if not count:
        count, noun = planned.confirmed.pictures, "picture"
    name = name or f"With {counted(count, f'more {noun}' if is_continued else noun)}, {title}"[:_NAME_LIMIT]
    order = submit.RunRequest(planned.config, name, token, copy_files=bring)
    return submit.create_runs(root or planned.parent.root, [order])[0]


# ---------------------------------------------------------------------------------------------------- labels


def _check_options(run: Run, rule: str, threshold: float, changes: Mapping[str, object]) -> None:
    check_choice("labels", rule, RULES)
    if not 0 <= threshold <= 1:
        raise UserError("confidence", f"{threshold:g} is not a share; expected 0 to 1")
    for key in changes:
        if key in _OWN or key.partition(".")[0] in _FIXED:
            raise UserError(
                key,
                "must stay as in the run that you continue so that both can be compared; to change it, launch a new "
                "run, which does not use the cluster names",
            )
    run.check_writable()


def _named_clusters(label_check: LabelCheck) -> list[int]:
    """Return the clusters that the user named and that have images."""
    decisions = label_check.decisions
    return sorted(decisions.names.keys() & set(label_check.cluster.tolist()) - decisions.rejected)


def _labels(
    label_check: LabelCheck, rule: str, threshold: float
) -> tuple[np.ndarray, np.ndarray, dict[str, int], list[str]]:
    """Return (ids of images that become labeled, their class ids, cluster of every new class, names without images)."""
    split, decisions = label_check.split, label_check.decisions
    seen_by_name = {name.casefold(): i for i, name in enumerate(split.class_names[: split.classes.seen])}
    is_confirmed = np.isin(split.unlabeled, np.fromiter(decisions.confirmed, np.int64, len(decisions.confirmed)))
    counts = is_confirmed if rule == "looked-at" else np.ones(len(split.unlabeled), bool)
    if rule == "confident":
        counts = is_confirmed | (label_check.network.confidence >= threshold)
    removed_images = np.fromiter(decisions.unlabeled, np.int64, len(decisions.unlabeled))
    counts &= ~np.isin(split.unlabeled, np.union1d(removed_images, split.validation))
    rows, class_of_image, new_classes, without_labels = [], [], {}, []
    for root in sorted({*decisions.names, *label_check.defaults} & set(label_check.ids) - decisions.rejected):
        members = label_check.cluster == root
        name = decisions.names.get(root)
        if name is None:  # a seen class: its predicted images are not confirmed
            members &= (label_check.network.predicted != root) | is_confirmed
        rows_of_cluster = np.flatnonzero(members & counts)
        class_id = seen_by_name.get(name.casefold()) if name is not None else root
        if name is not None and not len(rows_of_cluster):
            without_labels += [name] if class_id is None else []
            continue
        if class_id is None:
            class_id = split.classes.seen + len(new_classes)
            new_classes[name] = root
        rows.append(rows_of_cluster)
        class_of_image.append(np.full(len(rows_of_cluster), class_id))
    if not rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), [], without_labels
    rows, class_of_image = np.concatenate(rows), np.concatenate(class_of_image).astype(np.int64)
    order = np.argsort(rows)
    return split.unlabeled[rows[order]], class_of_image[order], new_classes, without_labels


def _why_no_labels(label_check: LabelCheck, rule: str, threshold: float) -> str:
    reason = "no picture is left in a named cluster"
    if not _named_clusters(label_check) and not label_check.decisions.moved and not label_check.decisions.parents:
        reason = "no cluster with images has a name; name one first"
    elif rule == "confident":
        reason = f"the model is not {100 * threshold:g} % sure of any picture of a named cluster; lower the confidence"
    elif rule == "looked-at":
        reason = "you did not put a single picture in a named cluster; choose confident or all"
    return f"would have the same labels as the run that you continue: {reason}"


def _join_labels(
    earlier: Confirmed | None, images: np.ndarray, class_of_image: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Join the labels confirmed now with those confirmed before, ascending by image."""
    if earlier is not None:
        images = np.concatenate([earlier.images, images])
        class_of_image = np.concatenate([earlier.given, class_of_image])
    order = np.argsort(images)
    return images[order], class_of_image[order]


def _origins(label_check: LabelCheck, images: np.ndarray, class_of_image: np.ndarray, clusters: list[int]) -> list[int]:
    """Return the network id that each new class continues: that of its cluster, or that of most of its images."""
    predicted = label_check.network.predicted[np.searchsorted(label_check.split.unlabeled, images)]
    classes = label_check.split.classes
    counts = [np.bincount(predicted[class_of_image == classes.seen + i]) for i in range(len(clusters))]
    return [origin if origin < classes.total else int(ids.argmax()) for origin, ids in zip(clusters, counts)]


def _rows(classes: Classes, origins: list[int], novel: list[int], total: int) -> np.ndarray:
    """Return, for every class id of the new run, the id of the old run that it continues, -1 for none: (total,)."""
    free = [cluster for cluster in novel if classes.seen <= cluster < classes.total]
    rows = np.array([*range(classes.seen), *origins, *free], np.int64)[:total]
    return np.concatenate([rows, np.full(total - len(rows), -1)])


def _checkpoint(run: Run, epoch: int) -> Path:
    """Return the checkpoint of this epoch, otherwise the newest one; raises `UserError` if there is none."""
    steps = {event["epoch"]: event["step"] for event in read_history(run.events) if event["kind"] == "eval"}
    checkpoint = run.checkpoints / f"step-{steps.get(epoch, 0):08d}.pt"
    newest = sorted(run.checkpoints.glob("step-*.pt"), reverse=True)
    for path in (checkpoint, *newest, run.checkpoints / "best.pt"):
        if path.is_file() and path.with_suffix(".json").is_file():
            return path
    raise UserError(
        "weights", f"the trained model of {run.id} was not saved; start from the beginning instead (--afresh)"
    )
