"""Runs of other machines, from folders and archives: checked and copied, never trusted, never executed.

Only files that `archives.belongs` knows are taken, each written anew. A run comes in as a whole or not at all: it is
filled and checked in `.incoming/` and then renamed. Checkpoints are compared with their sha256 and not opened; a
trainer that resumes the run loads them with `weights_only`. Nothing that was going on elsewhere goes on here: wishes
stay behind, and a run without an end is recorded as crashed where it was copied. `imported.json` says where it is from.
"""

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lps import foreign_arrays, schema
from lps.archives import CHUNK, belongs
from lps.config import Config
from lps.events import check_version, is_event
from lps.files import SMALL_FILE, clean_line, read_small, refusal, sync_folder, write_json, write_whole
from lps.foreign_arrays import MOST_ARRAYS
from lps.intake import MOST_BYTES, Entry, entries
from lps.locks import is_held, locked
from lps.parameters import ConfigError, shorten
from lps.runs import NOTES_LIMIT, RUN_ID, Run

IMPORTED_FILE = "imported.json"
MOST_TEXT = 256 << 20  # bytes of events.jsonl
MOST_LINE = 4 << 20  # bytes of an event
MOST_LOG = 16 << 20
RESERVE = 500 << 20  # bytes of the disk that stay free
IDENTITY = ("events.jsonl", "split.npz")  # two runs with these and their settings in common are one


@dataclass(frozen=True)
class Imported:
    """A run that came in, or was there already; notes: what was left out or damaged, one sentence each."""

    run: Run
    is_new: bool
    notes: tuple[str, ...] = ()


def import_runs(
    path: Path, root: Path, dataset_path: str | None = None, most_bytes: int = MOST_BYTES
) -> list[Imported]:
    """Take the runs in `path`, a run's folder, a folder of such folders, or an archive of them, into the folder `root`.

    dataset_path: where the data set of these runs lies on this machine; without it they know of no place, since a path
    from elsewhere could point at anything here. All of an archive's runs come in or none. Raises `ConfigError`.
    """
    found = []
    for source in _sources(path):
        with _incoming(root) as drafts:
            notes = _copy(source, drafts, root, most_bytes)
            ids = sorted(entry.name for entry in drafts.iterdir())
            if not ids:
                raise ConfigError("path", f"{shorten(path.name)} holds no run: no folder is called as runs are")
            for run_id in ids:
                notes[run_id] = notes.get(run_id, []) + check(Run(drafts / run_id), path.name, dataset_path)
            found += _place([drafts / run_id for run_id in ids], root, notes)
    return found


def _sources(path: Path) -> list[Path]:
    """What is read as one thing: an archive, or a run's folder each."""
    try:
        path = Path(os.path.expanduser(path)).resolve()  # which leaves ~nobody as it is
        path.stat()
    except (OSError, ValueError) as error:
        reason = refusal(error) if isinstance(error, OSError) else "it is no path"
        raise ConfigError("path", f"{shorten(str(path), 200)} cannot be read ({reason})") from None
    if not path.is_dir() or RUN_ID.fullmatch(path.name):
        return [path]
    folders = sorted(entry for entry in path.iterdir() if RUN_ID.fullmatch(entry.name))
    folders = [folder for folder in folders if folder.is_dir() and not folder.is_symlink()]
    if not folders:
        raise ConfigError("path", f"{shorten(str(path))} is no run and holds none")
    return folders


@contextmanager
def _incoming(root: Path) -> Iterator[Path]:
    """An empty folder beside the runs that goes away at the end; raises `ConfigError` where it cannot be written."""
    folder = root / ".incoming" / f"import.{secrets.token_hex(4)}"
    is_new = not root.exists()
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.parent.mkdir(exist_ok=True, mode=0o700)
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise ConfigError("runs", f"{shorten(str(root))} cannot hold another run ({error.strerror})") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if is_new and [*root.iterdir()] == [folder.parent]:  # and nothing came in: it goes again
            with suppress(OSError):
                folder.parent.rmdir()
                root.rmdir()


# ---------------------------------------------------------------------------------------------------- copying


def _copy(source: Path, drafts: Path, root: Path, most_bytes: int) -> dict[str, list[str]]:
    """Write the files of all runs in `source` below `drafts`; gives what is to be said of each run by id."""
    if source.is_dir() and is_held(source / "lock"):
        raise ConfigError("path", f"{source.name} is running on this machine; stop it first")
    left_out: dict[str, int] = {}
    with entries(source, most_bytes) as files:
        for entry in files:
            run_id, name = place_of(entry.name)
            if not run_id:
                continue
            if belongs(name):
                _write(entry, drafts / run_id / name, root)
            elif name not in ("lock", "want.json"):
                left_out[run_id] = left_out.get(run_id, 0) + 1
    return {run_id: [f"{count} files that are no results were left out"] for run_id, count in left_out.items()}


def place_of(name: str) -> tuple[str, str]:
    """(id of the run, name inside its folder) of an archive's entry; "" for what is in no run's folder."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    at = next((place for place, part in enumerate(parts) if RUN_ID.fullmatch(part)), len(parts))
    return (parts[at], "/".join(parts[at + 1 :])) if at < len(parts) - 1 else ("", "")


def _limit(name: str) -> int:
    """Bytes that a file may have."""
    kind = name.rpartition(".")[2]
    if name == "log.txt":
        return MOST_LOG
    return {"json": SMALL_FILE, "jsonl": MOST_TEXT, "npz": MOST_ARRAYS}.get(kind, MOST_BYTES)


def _write(entry: Entry, target: Path, root: Path) -> None:
    """Copy one file to a new one, no more bytes than it said to have."""
    name = target.name
    if entry.size > _limit(name):
        raise ConfigError("archive", f"has a {name} of {entry.size / 1e6:.0f} MB, more than any run's")
    try:
        if shutil.disk_usage(root).free < entry.size + RESERVE:
            raise ConfigError("runs", f"{shorten(str(root))} has too little space left for {name}")
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = open(target, "xb", opener=lambda path, flags: os.open(path, flags, 0o600))
    except FileExistsError:
        raise ConfigError("archive", f"has {name} of {target.parent.name} twice") from None
    except OSError as error:
        raise ConfigError("runs", f"{name} cannot be written ({error.strerror})") from None
    left = entry.size
    with target, entry.open() as stream:
        while left and (chunk := stream.read(min(CHUNK, left))):
            left -= len(chunk)
            try:
                target.write(chunk)
            except OSError as error:
                raise ConfigError("runs", f"{name} cannot be written ({error.strerror})") from None
        if left or stream.read(1):
            raise ConfigError("archive", f"has a {name} whose size is not what the archive says")
        target.flush()
        os.fsync(target.fileno())


def _place(drafts: list[Path], root: Path, notes: dict[str, list[str]]) -> list[Imported]:
    """Put checked runs among the others, all or none; those that are there already stay, and must be the same ones."""
    found, moved = [], []
    with locked(root):
        present = [draft for draft in drafts if os.path.lexists(root / draft.name)]
        for draft in present:
            if not _is_same(draft, root / draft.name):
                said = "is there already with other results; delete that one first, or keep it"
                raise ConfigError("run", f"{draft.name} {said}")
        try:
            for draft in drafts:
                if draft not in present:
                    draft.rename(root / draft.name)
                    moved.append(draft)
        except OSError as error:
            for draft in moved:
                (root / draft.name).rename(draft)
            raise ConfigError("runs", f"{shorten(str(root))} cannot hold another run ({error.strerror})") from None
        sync_folder(root)
    for draft in drafts:
        run, is_new = Run(root / draft.name), draft in moved
        found.append(Imported(run, is_new, tuple(notes[run.id]) if is_new else _find_data(Run(draft), run)))
    return found


def _is_same(draft: Path, folder: Path) -> bool:
    """Whether two runs have the same settings and results, wherever their data lie."""
    if any(_bytes(draft / name) != _bytes(folder / name) for name in IDENTITY):
        return False
    try:
        one, other = (replace(Run(path).config(), dataset_path=None).to_json() for path in (draft, folder))
    except ConfigError:
        return False
    return one == other


def _find_data(draft: Run, run: Run) -> tuple[str, ...]:
    """Let a run that came in before know where its data are, where this import says so."""
    place = draft.config().dataset_path
    if not place or not (run.folder / IMPORTED_FILE).exists():
        return ()
    with run.changing():
        config = run.config()
        if config.dataset_path == place:
            return ()
        write_whole(run.folder / "config.json", replace(config, dataset_path=place).to_json().encode())
    return (f"its data set is taken from {shorten(place, 200)} from now on",)


def _bytes(path: Path) -> bytes | None:
    return hashlib.sha256(path.read_bytes()).digest() if path.is_file() else None


# ---------------------------------------------------------------------------------------------------- checking


def check(run: Run, origin: str, dataset_path: str | None = None) -> list[str]:
    """Check every file of a run that was copied and make it one of this machine; raises `ConfigError`.

    Gives sentences on what is damaged and does no harm.
    """
    notes = _check_config(run, dataset_path)
    notes += _check_events(run) + _check_checkpoints(run) + foreign_arrays.check(run)
    schema.check("meta.json", run.read_json("meta.json").get("version"))
    notes += run.damages()
    run.keep_damaged("meta.json")
    meta = run.meta()
    texts = {key: meta[key] for key in ("name", "tags")} | {"notes": meta["notes"][:NOTES_LIMIT]}
    texts |= {"hidden": False, "rev": max(1, meta["rev"])}
    write_json(run.folder / "meta.json", schema.stamped("meta.json", texts))
    (run.folder / "lock").touch(mode=0o600)
    host = run.read_json("process.json").get("host")
    host = clean_line(host, 60) if isinstance(host, str) else "another machine"
    _settle(run, host)
    about = {"version": 1, "from": clean_line(origin), "host": host, "time": round(time.time(), 3)}
    write_json(run.folder / IMPORTED_FILE, about)
    return notes


def _check_config(run: Run, dataset_path: str | None) -> list[str]:
    """Its settings are valid and fit its id; the place of its data is one of this machine, or none."""
    try:
        config = Config.from_json(read_small(run.folder / "config.json").decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = refusal(error) if isinstance(error, OSError) else "it is no text"
        raise ConfigError("config.json", f"of {run.id} is missing or damaged ({reason})") from None
    if f"-{config.dataset}-{config.method}-s{config.seed}-" not in run.id:
        raise ConfigError("config.json", f"of {run.id} is that of another run")
    notes = []
    if config.dataset_path and not dataset_path:
        notes = ["its data set lies elsewhere: to see its images, import it with --dataset-path PATH"]
    if config.dataset_path:
        config = replace(config, dataset_path=os.path.abspath(dataset_path) if dataset_path else None)
        write_whole(run.folder / "config.json", config.to_json().encode())
    return notes


def _check_events(run: Run) -> list[str]:
    """Counts the damaged lines, which every reader skips; the last one may be torn."""
    if not run.events.is_file():
        return []
    check_version(run.events)
    good = bad = 0
    with open(run.events, "rb") as file:
        while line := file.readline(MOST_LINE + 1):
            if len(line) > MOST_LINE:
                raise ConfigError("events.jsonl", f"of {run.id} has a line of more than {MOST_LINE >> 20} MB")
            if line.endswith(b"\n"):
                good, bad = good + is_event(line), bad + (not is_event(line))
    if bad > good:
        raise ConfigError("events.jsonl", f"of {run.id} holds {bad} lines that are no events, and {good} that are")
    return [f"{bad} damaged lines of events.jsonl are skipped"] if bad else []


def _check_checkpoints(run: Run) -> list[str]:
    """Removes those that are not what was written; none is opened."""
    damaged = []
    for path in sorted(run.checkpoints.glob("*.pt")):
        record = run.read_json(f"checkpoints/{path.stem}.json")
        with open(path, "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != record.get("sha256"):
                damaged.append(path)
    for path in damaged:
        path.unlink()
        path.with_suffix(".json").unlink(missing_ok=True)
    return [f"checkpoint {path.stem} is damaged and was left out" for path in damaged]


def _settle(run: Run, host: str) -> None:
    """An end for a run that has none: here it neither waits nor goes on, and whoever wants to may resume it."""
    state = run.state()
    if state.is_over and state.name != "crashed":
        return
    if state.name == "crashed":
        reason = f"had not ended on {host} when it was copied: it was going on there, or had crashed"
        ending = {"attempt": max(1, state.attempt), "state": "crashed", "kind": "copied", "reason": reason}
    else:
        reason = f"had not begun on {host} when it was copied"
        ending = {"attempt": 1, "state": "stopped", "kind": "", "reason": reason}
    write_json(run.folder / "exit.json", ending | {"code": None, "signal": None, "forced": False, "time": time.time()})


def as_json(found: Imported) -> dict:
    """What came of one run, for scripts."""
    return {"run": str(found.run.folder), "new": found.is_new, "notes": list(found.notes)}
