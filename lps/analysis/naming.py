"""Store the user's decisions about the clusters of an epoch: names, merges, splits and rejections.

`names.json` of a run is an append-only list of entries: decision, epoch and time. The current state is the sum of the
entries, so nothing is overwritten, and undoing adds an entry too. Standard library only.

    {"epoch": 40, "time": 1.7e9, "snapshot": "9f…", "steps": [{"do": "name", "id": 7, "name": "zebra"}]}
    {"do": "merge", "id": 7, "into": 9}   {"do": "split", "images": [3, 14], "new": 12}   {"do": "reject", "id": 7}
    {"do": "accept", "id": 7}   {"do": "unname", "id": 7}   {"do": "assign", "images": [3], "to": 9}
    {"do": "wrong", "images": [3], "id": 9}   {"do": "nothing", "images": [14]}
    {"epoch": 40, "time": 1.7e9, "undo": true}   {"epoch": 40, "time": 1.7e9, "undo": "key of an entry"}
    {"epoch": 40, "time": 1.7e9, "restore": 5}   return to the state after the first 5 entries of the epoch
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lps.errors import UserError, shorten
from lps.files import journal
from lps.files.atomic import clean_line
from lps.files.journal import Journal, is_count
from lps.store.runs import Run
from lps.wording import counted

FILE = "names.json"
NAME_LIMIT = 80  # characters
_MAX_CLUSTERS = 1 << 17  # upper limit, since ids index arrays
_REMEDY = "merge the two, or choose another name"


@dataclass(frozen=True)
class Naming:
    """The state at an epoch. Clusters are ids: those that the model predicts, and those that the user split off.

    parents: cluster -> the cluster that it was merged into. moved: image id -> the cluster that the user chose for it.
    created_clusters: the clusters that were split off. confirmed: ids of the images that the user assigned one by one.
    wrong_clusters: image id -> the cluster that it does not belong to. classless_images: ids of images without a class.
    """

    names: Mapping[int, str] = field(default_factory=dict)
    parents: Mapping[int, int] = field(default_factory=dict)
    moved: Mapping[int, int] = field(default_factory=dict)
    rejected: frozenset[int] = frozenset()
    created_clusters: frozenset[int] = frozenset()
    confirmed: frozenset[int] = frozenset()
    wrong_clusters: Mapping[int, int] = field(default_factory=dict)
    classless_images: frozenset[int] = frozenset()

    def root(self, cluster: int) -> int:
        """Return the cluster that this one is now part of."""
        while cluster in self.parents:
            cluster = self.parents[cluster]
        return cluster

    def parts(self, cluster: int) -> list[int]:
        """Return the clusters that were merged into this one, ascending."""
        return sorted(part for part in self.parents if self.root(part) == cluster)

    @property
    def split_off(self) -> list[int]:
        """Return the clusters that the user split off and that hold an image, ascending."""
        return sorted(self.created_clusters & set(self.moved.values()))

    @property
    def unlabeled(self) -> frozenset[int]:
        """Return the ids of images without a label: marked as wrong or as showing no class."""
        return self.classless_images | self.wrong_clusters.keys()

    def next_id(self, count: int) -> int:
        """Return an id for a new cluster, outside the `count` ids of the model."""
        return max([count - 1, *self.created_clusters, *self.moved.values(), *self.parents, *self.names]) + 1

    @property
    def is_empty(self) -> bool:
        return self == Naming()

    @property
    def gives_no_label(self) -> bool:
        """Return whether no cluster was named or merged and no image was assigned: all else gives no label."""
        return not (self.names or self.parents or self.confirmed)


# ---------------------------------------------------------------------------------------------------- state


def apply_step(naming: Naming, step: Mapping) -> Naming:
    """Return `naming` after `step`; raises `UserError` if the step is not possible."""
    act = _ACTS.get(step.get("do"))
    if act is None:
        raise UserError("do", f"{shorten(step.get('do'))} is not one of {', '.join(_ACTS)}")
    return act(naming, step)


def _named(naming: Naming, step: Mapping) -> Naming:
    cluster, name = _cluster_of_step(naming, step), clean_name(step.get("name"))
    discarded = {*naming.parents, *naming.created_clusters.difference(naming.split_off)}
    for other_cluster, used_name in naming.names.items():
        if other_cluster != cluster and other_cluster not in discarded and used_name.casefold() == name.casefold():
            raise UserError("name", f"{shorten(name)} is already the name of cluster {other_cluster}; {_REMEDY}")
    return replace(naming, names={**naming.names, cluster: name}, rejected=naming.rejected - {cluster})


def _unnamed(naming: Naming, step: Mapping) -> Naming:
    cluster = _cluster_of_step(naming, step)
    return replace(
        naming, names={other_cluster: name for other_cluster, name in naming.names.items() if other_cluster != cluster}
    )


def _merged(naming: Naming, step: Mapping) -> Naming:
    cluster, target = _cluster_of_step(naming, step), _cluster_of_step(naming, step, "into")
    if cluster == target:
        raise UserError("into", f"cluster {cluster} cannot be merged into itself")
    return replace(naming, parents={**naming.parents, cluster: target})


def _split(naming: Naming, step: Mapping) -> Naming:
    new_cluster, images = step.get("new"), _images_of(step)
    used_ids = {*naming.created_clusters, *naming.moved.values(), *naming.parents, *naming.names}
    if not _is_cluster(new_cluster) or new_cluster in used_ids:
        raise UserError("new", f"{shorten(new_cluster)} is not the id of a new cluster")
    naming = _without_verdicts(naming, images)
    return replace(
        naming,
        moved={**naming.moved, **dict.fromkeys(images, new_cluster)},
        created_clusters=naming.created_clusters | {new_cluster},
    )


def _assigned(naming: Naming, step: Mapping) -> Naming:
    cluster, images = _cluster_of_step(naming, step, "to"), _images_of(step)
    naming = _without_verdicts(naming, images)
    moved_to = {**naming.moved, **dict.fromkeys(images, cluster)}
    return replace(naming, moved=moved_to, confirmed=naming.confirmed.union(images))


def _mark_misplaced(naming: Naming, step: Mapping) -> Naming:
    cluster, images = _cluster_of_step(naming, step), _images_of(step)
    naming = _without_verdicts(naming, images)
    return replace(naming, wrong_clusters={**naming.wrong_clusters, **dict.fromkeys(images, cluster)})


def _mark_no_class(naming: Naming, step: Mapping) -> Naming:
    images = _images_of(step)
    naming = _without_verdicts(naming, images)
    return replace(naming, classless_images=naming.classless_images | set(images))


def _without_verdicts(naming: Naming, images: Sequence[int]) -> Naming:
    """Remove earlier decisions on images: the latest one counts. Split-off images stay; they define their cluster."""
    decided = set(images)
    moved_to = {
        image: to for image, to in naming.moved.items() if image not in decided or to in naming.created_clusters
    }
    wrong_images = {image: cluster for image, cluster in naming.wrong_clusters.items() if image not in decided}
    return replace(
        naming,
        moved=moved_to,
        wrong_clusters=wrong_images,
        classless_images=naming.classless_images - decided,
        confirmed=naming.confirmed - decided,
    )


def _images_of(step: Mapping) -> list[int]:
    images = step.get("images")
    if not isinstance(images, list) or not images or not all(map(is_count, images)):
        raise UserError("images", f"{shorten(images)} is not a list of image ids; choose at least one image")
    return images


_ACTS = {
    "name": _named,
    "merge": _merged,
    "split": _split,
    "assign": _assigned,
    "wrong": _mark_misplaced,
    "nothing": _mark_no_class,
    "reject": lambda naming, step: replace(naming, rejected=naming.rejected | {_cluster_of_step(naming, step)}),
    "accept": lambda naming, step: replace(naming, rejected=naming.rejected - {_cluster_of_step(naming, step)}),
    "unname": _unnamed,
}


def _cluster_of_step(naming: Naming, step: Mapping, key: str = "id") -> int:
    """Return the cluster that a step names; raises `UserError` if it is merged into another one."""
    cluster = step.get(key)
    if not _is_cluster(cluster):
        raise UserError(key, f"{shorten(cluster)} is not the id of a cluster")
    if cluster in naming.parents:
        raise UserError(key, f"cluster {cluster} is part of cluster {naming.root(cluster)}; undo the merge first")
    return cluster


def _is_cluster(value) -> bool:
    return is_count(value) and value < _MAX_CLUSTERS


def clean_name(text) -> str:
    """Return a name as one printable line; raises `UserError` if no character is left."""
    name = " ".join(clean_line(text, NAME_LIMIT).split()) if isinstance(text, str) else ""
    if not name:
        raise UserError("name", f"{shorten(text)} is not a name; expected 1 to {NAME_LIMIT} characters")
    return name


def merge_steps(naming: Naming, cluster: int, target: int, defaults: Mapping[int, str]) -> list[dict]:
    """Return the steps that merge two clusters; a name that only the first one has passes to the other.

    defaults: names that clusters have by default.
    """
    steps: list[dict] = [{"do": "merge", "id": cluster, "into": target}]
    if cluster in naming.names and target not in naming.names and target not in defaults:
        steps.append({"do": "name", "id": target, "name": naming.names[cluster]})
    return steps


def cluster_with_name(name: str, cluster: int, naming: Naming, defaults: Mapping[int, str]) -> int | None:
    """Return the other cluster that has the name already, given or by default."""
    shown_names = {**defaults, **naming.names}
    discarded = {cluster, *naming.parents, *naming.created_clusters.difference(naming.split_off)}
    folded = clean_name(name).casefold()
    return next((i for i, used in shown_names.items() if i not in discarded and used.casefold() == folded), None)


def check_name(name: str, cluster: int, naming: Naming, defaults: Mapping[int, str]) -> None:
    """Raise `UserError` if another cluster has the name by default."""
    for other_cluster, used_name in defaults.items():
        free = other_cluster == cluster or other_cluster in naming.names or other_cluster in naming.parents
        if not free and used_name.casefold() == clean_name(name).casefold():
            raise UserError("name", f"{shorten(name)} is already the name of cluster {other_cluster}; {_REMEDY}")


# ---------------------------------------------------------------------------------------------------- changes


def entries_of_epoch(entries: Sequence[Mapping], epoch: int) -> list[Mapping]:
    """Return all entries of an epoch, including undo entries; their number identifies a state (`restore_state`)."""
    return [entry for entry in entries if entry["epoch"] == epoch]


def entries_in_effect(entries: Sequence[Mapping], epoch: int) -> list[Mapping]:
    """Return the entries of an epoch in force, in order: not undone and not dropped by a restore."""
    return [entry for _, entry in journal.in_effect(entries_of_epoch(entries, epoch))]


def naming_of_epoch(entries: Sequence[Mapping], epoch: int) -> Naming:
    """Return the state that the entries of an epoch add up to. Steps that are not possible (any more) are skipped."""
    naming = Naming()
    for entry in entries_in_effect(entries, epoch):
        for step in entry["steps"]:
            try:
                naming = apply_step(naming, step)
            except UserError:
                continue
    return naming


def named_epochs(entries: Sequence[Mapping]) -> list[int]:
    """Return the epochs with entries in force, ascending."""
    return [epoch for epoch in sorted({entry["epoch"] for entry in entries}) if entries_in_effect(entries, epoch)]


_OF_IMAGES = {  # decisions on single images: in words, and the key of their cluster
    "split": ("split off as", "new"),
    "assign": ("moved to", "to"),
    "wrong": ("marked as not in", "id"),
    "nothing": ("marked as none of these", None),
}


def _cluster_in_words(cluster: int) -> str:
    return f"cluster {cluster}"


def entry_in_words(entry: Mapping, noun: str = "image", name_of: Callable[[int], str] = _cluster_in_words) -> str:
    """Describe an entry in words: "cluster 7 named zebra". noun: of one image. name_of: names a cluster."""
    if entry.get("undo"):
        return "last decision undone" if entry["undo"] is True else "a decision undone"
    if "restore" in entry:
        return f"state {entry['restore']} restored"
    steps = [_step_words(step, noun, name_of) for step in entry["steps"][:3]]
    return "; ".join(filter(None, steps)) + "; …" * (len(entry["steps"]) > 3)


def history_in_words(
    entries: Sequence[Mapping], noun: str = "image", name_of: Callable[[int], str] = _cluster_in_words
) -> list[str]:
    """Describe every entry of an epoch; an undo says what it has undone. noun, name_of: see `entry_in_words`."""
    texts = []
    for count, entry in enumerate(entries):
        undone = entry.get("undo")
        active = [entry for _, entry in journal.in_effect(entries[:count])] if undone else []
        matching = active if undone is True else [entry for entry in active if entry.get("key") == undone]
        text = entry_in_words(matching[-1] if matching else entry, noun, name_of)
        texts.append(f"undone: {text}" if matching else text)
    return texts


def _step_words(step: Mapping, noun: str, name_of: Callable[[int], str]) -> str:
    cluster, kind = step.get("id"), step.get("do")
    if kind in _OF_IMAGES:
        text, key = _OF_IMAGES[kind]
        return f"{counted(len(step['images']), noun)} {text}" + (f" {name_of(step[key])}" if key else "")
    endings = {
        "name": f"named {clean_line(step.get('name', ''), NAME_LIMIT)}",
        "unname": "no longer named",
        "merge": f"merged into {name_of(step.get('into'))}",
        "reject": "marked as not a class",
        "accept": "marked as a class again",
    }
    if kind not in endings:
        return ""
    subject = _cluster_in_words(cluster) if kind in ("name", "unname") else name_of(cluster)
    return f"{subject} {endings[kind]}"


# ---------------------------------------------------------------------------------------------------- the file


def read_entries(run: Run) -> list[Mapping]:
    """Return all entries of a run, oldest first; raises `UserError` for a damaged file."""
    return _journal(run).entries()


Steps = Sequence[Mapping] | Callable[[Naming], Sequence[Mapping]]


def record_steps(run: Run, epoch: int, steps: Steps, snapshot: str = "", key: str = "") -> bool:
    """Append an entry for an epoch and return True; raises `UserError`, without any change, if that is not possible.

    steps: the decisions, or a function that makes them from the current state under the lock. snapshot: a digest
    of the predictions that the user saw. key: identifies this entry; nothing is added if it exists already. Without
    a key, nothing is added if the steps change nothing, as those of the second click of a double click.
    """

    def entry_after(entries: list[Mapping]) -> Mapping | None:
        if key and any(entry.get("key") == key for entry in entries):
            return None
        before = naming = naming_of_epoch(entries, epoch)
        new_steps = list(steps(naming) if callable(steps) else steps)
        for step in new_steps:
            naming = apply_step(naming, step)
        if naming == before and not key:
            return None
        return {**_head(epoch), "snapshot": snapshot, "steps": new_steps} | ({"key": key} if key else {})

    run.check_writable()
    return _journal(run).append(entry_after)


def undo_entry(run: Run, epoch: int, key: str) -> None:
    """Undo the entry with this key, even if others followed; do nothing if it is not in effect."""

    def entry_after(entries: list[Mapping]) -> Mapping | None:
        is_in_effect = key and any(entry.get("key") == key for entry in entries_in_effect(entries, epoch))
        return {**_head(epoch), "undo": key} if is_in_effect else None

    run.check_writable()
    _journal(run).append(entry_after)


def undo_last(run: Run, epoch: int, seen: int | None = None) -> str:
    """Undo the last entry in force of an epoch; returns it in words, "" if there is none. The entry stays in the file.

    seen: number of entries that the user saw; raises `UserError` if others were added since.
    """
    undone: list[Mapping] = []

    def entry_after(entries: list[Mapping]) -> Mapping | None:
        _check_seen(entries, epoch, seen)
        undone.extend(entries_in_effect(entries, epoch)[-1:])
        return {**_head(epoch), "undo": True} if undone else None

    run.check_writable()
    _journal(run).append(entry_after)
    return entry_in_words(undone[0]) if undone else ""


def restore_state(run: Run, epoch: int, count: int, seen: int | None = None) -> None:
    """Restore the state after the first `count` entries of an epoch; nothing is removed. seen: as in `undo_last`."""

    def entry_after(entries: list[Mapping]) -> Mapping:
        _check_seen(entries, epoch, seen)
        num_entries = len(entries_of_epoch(entries, epoch))
        if not 0 <= count <= num_entries:
            raise UserError("restore", f"{shorten(count)} is not a number of decisions; expected 0 to {num_entries}")
        return {**_head(epoch), "restore": count}

    run.check_writable()
    _journal(run).append(entry_after)


def _journal(run: Run) -> Journal:
    return Journal(run.folder / FILE, _is_of_naming, run.changing, skips_unknown=True)


def _head(epoch: int) -> dict:
    return {"epoch": epoch, "time": time.time()}


def _check_seen(entries: list[Mapping], epoch: int, seen: int | None) -> None:
    decisions = entries_of_epoch(entries, epoch)
    if seen is not None and seen < len(decisions):
        raise UserError(
            "undo", f"was not done because there is a newer change: {entry_in_words(decisions[-1])}; check it first"
        )


def _is_of_naming(entry: Mapping) -> bool:
    if not is_count(entry.get("epoch")) or type(entry.get("undo")) is int:
        return False
    if entry.get("undo") or "restore" in entry:
        return True
    steps = entry.get("steps")
    return isinstance(entry.get("snapshot") or "", str) and isinstance(steps, list) and all(map(_is_step, steps))


def _is_step(step) -> bool:
    """Return whether this version knows a step. `naming_of_epoch` skips steps of later versions."""
    if not isinstance(step, dict) or not isinstance(step.get("do"), str):
        return False
    try:
        return step["do"] not in _ACTS or apply_step(Naming(), step) is not None
    except UserError:
        return False
