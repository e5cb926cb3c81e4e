"""Store a user's decisions about the pictures of a data set: left out, relabeled, or confirmed as they are.

There is one file per data set, in the user's own folder and never beside the pictures: `$LPS_DECISIONS`, else
`decisions` in `$XDG_DATA_HOME/lps-studio`, else in `~/.local/share/lps-studio`. Entries are only added; undoing one is
an entry too. A run names the state that it was made with (`dataset.decisions`), so later decisions do not change it.
Standard library only.

    {"time": 1.7e9, "do": "leave out", "pictures": ["cat/1.jpg"], "why": "duplicate", "of": "", "state": "9f…"}
    {"time": 1.7e9, "do": "relabel", "pictures": [17], "label": "dog", "of": "5c…", "state": "04…"}
    {"time": 1.7e9, "do": "ignore", "pictures": [3, 8], "why": "duplicate", "of": "5c…", "state": "04…"}
    {"time": 1.7e9, "undo": 1, "state": ""}
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lps.errors import UserError, check_choice, shorten
from lps.files import disk
from lps.files.atomic import as_user_error, clean_line
from lps.files.journal import Journal, UnreadableJournal, in_effect
from lps.files.locks import folder_lock
from lps.files.user_folders import data_folder
from lps.settings.parameters import BadSetting
from lps.wording import counted, first_of

SETTING = "dataset.decisions"
NOTHING = "0"  # the state without decisions
_ACTS = ("leave out", "relabel", "ignore")
UNKNOWN = ""  # the label of a picture of unknown class
_DIGITS = 12  # hexadecimal digits of a state
_MAX_BYTES = 8 << 20  # most bytes of a file
Key = str | int  # of a picture: its file below the folder, or its number if it is not a file


@dataclass(frozen=True)
class Decisions:
    """Decisions in effect. labels: picture -> name of its class, or `UNKNOWN`. ignored: (finding, picture).

    of: names of the labels (`lps.data.dataset_edits`) for which the decisions were made; empty for files.
    """

    left_out: frozenset[Key] = frozenset()
    labels: Mapping[Key, str] = field(default_factory=dict)
    ignored: frozenset[tuple[str, Key]] = frozenset()
    of: frozenset[str] = frozenset()

    @property
    def state(self) -> str:
        """Digest of the decisions that runs depend on; "" if there are none."""
        if not self.left_out and not self.labels:
            return ""
        left_out, labels = (sorted(map(json.dumps, part)) for part in (self.left_out, self.labels.items()))
        text = json.dumps([left_out, labels, sorted(self.of)])
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def check_state(value: str | None) -> None:
    """Raise `UserError` for an invalid state."""
    is_state = value is not None and len(value) == _DIGITS and set(value) <= set("0123456789abcdef")
    if value not in (None, NOTHING) and not is_state:
        raise BadSetting(
            SETTING,
            f"{shorten(value)} does not identify saved decisions; expected {NOTHING} or the {_DIGITS} hexadecimal "
            "digits that `python -m lps audit` prints",
        )


def decisions_folder() -> Path:
    """Return the folder of this user's decisions."""
    return data_folder("LPS_DECISIONS", "decisions")


def log_path(dataset: str, source: str | None) -> Path:
    """Return the file of a data set. source: its `dataset.path`, absolute."""
    if source is None:
        return decisions_folder() / f"{dataset}.jsonl"
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return decisions_folder() / f"{dataset}-{digest}.jsonl"


def read_entries(path: Path) -> list[Mapping]:
    """Return all entries, oldest first; raises `UserError` for a damaged file."""
    with _refused_as_setting(path):
        return _journal(path).entries()


def _journal(path: Path) -> Journal:
    return Journal(path, _is_decision, partial(folder_lock, path.parent), max_bytes=_MAX_BYTES)


@contextmanager
def _refused_as_setting(path: Path) -> Iterator[None]:
    try:
        yield
    except UnreadableJournal as error:
        message = f"{shorten(str(path), 200)} {error.reason}; choose {NOTHING} to ignore the decisions"
        raise BadSetting(SETTING, message) from None


def _is_decision(entry: Mapping) -> bool:
    if not isinstance(entry.get("state"), str):
        return False
    if "undo" in entry:
        return type(entry["undo"]) is int
    pictures, texts = entry.get("pictures"), [entry.get(key, "") for key in ("label", "why", "of")]
    is_known = entry.get("do") in _ACTS and all(isinstance(text, str) for text in texts)
    return is_known and isinstance(pictures, list) and all(type(key) in (str, int) for key in pictures)


def combine_entries(entries: Sequence[Mapping]) -> Decisions:
    """Combine the entries. The last decision on a picture counts: a picture that is relabeled is no longer left out."""
    left_out: set[Key] = set()
    labels: dict[Key, str] = {}
    ignored: set[tuple[str, Key]] = set()
    dataset_names: set[str] = set()
    for _, entry in in_effect(entries):
        pictures = entry["pictures"]
        if entry["do"] == "ignore":
            ignored |= {(entry.get("why", ""), key) for key in pictures}
            continue
        dataset_names |= {entry["of"]} if entry.get("of") else set()
        if entry["do"] == "leave out":
            left_out |= set(pictures)
        else:
            left_out -= set(pictures)
            labels |= dict.fromkeys(pictures, entry.get("label", UNKNOWN))
    return Decisions(
        frozenset(left_out), labels, frozenset(ignored), frozenset(dataset_names if left_out or labels else ())
    )


def newest_state(dataset: str, source: str | None) -> str | None:
    """Return the state with which the next run of a data set begins; None without decisions."""
    path = log_path(dataset, source)
    return (combine_entries(read_entries(path)).state or None) if path.exists() else None


def decisions_at(dataset: str, source: str | None, state: str | None) -> Decisions:
    """Return the decisions of `state`; raises `UserError` if the file does not have that state."""
    if state in (None, NOTHING):
        return Decisions()
    path = log_path(dataset, source)
    log_entries = read_entries(path)
    last = next((number for number, entry in enumerate(log_entries, 1) if entry["state"] == state), 0)
    decisions = combine_entries(log_entries[:last])
    if decisions.state != state:
        raise BadSetting(
            SETTING,
            f"{shorten(str(path), 200)} has no decisions called {state}; choose {NOTHING} to ignore all decisions",
        )
    return decisions


def record_decision(
    dataset: str, source: str | None, do: str, pictures: Sequence[Key], *, label: str = "", why: str = "", of: str = ""
) -> Decisions:
    """Add a decision and return the decisions now in effect; raises `UserError`.

    why: the finding that it answers; of: as in `Decisions`; label: for `relabel`, `UNKNOWN` for none.
    """
    check_choice("do", do, _ACTS)
    entry = {"do": do, "pictures": list(pictures), "why": why, "of": of} | ({"label": label} if do == "relabel" else {})
    return _append(log_path(dataset, source), entry)


def undo_decision(dataset: str, source: str | None, number: int) -> Decisions:
    """Undo the entry of this number, which stays in the file; raises `UserError` if it is not in effect."""
    path = log_path(dataset, source)
    active_numbers = [entry_number for entry_number, _ in in_effect(read_entries(path))]
    if number not in active_numbers:
        some_numbers = ", ".join(map(str, active_numbers[-20:])) or "none"
        raise UserError("undo", f"{shorten(number)} is not a current decision; choices: {some_numbers}")
    return _append(path, {"undo": number})


def _append(path: Path, entry: Mapping) -> Decisions:
    decisions = Decisions()

    def entry_after(before: list[Mapping]) -> Mapping:
        nonlocal decisions
        decisions = combine_entries([*before, entry])
        return {"time": time.time(), **entry, "state": decisions.state}

    with as_user_error("decisions", f"{shorten(str(path), 200)} cannot be written"), _refused_as_setting(path):
        path.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk.make_folder(path.parent)
        _journal(path).append(entry_after)
    return decisions


def entry_in_words(entry: Mapping) -> str:
    """Describe a decision in words: "2 pictures left out: cat/1.jpg, cat/2.jpg"."""
    pictures = [clean_line(str(key)) for key in entry["pictures"]]
    label = clean_line(entry.get("label", "")) or "of unknown class"
    action = {"leave out": "left out", "relabel": f"labeled {label}", "ignore": "kept as it is"}[entry["do"]]
    named = first_of(pictures, 3)
    return f"{counted(len(pictures), 'picture')} {action}: {named}"
