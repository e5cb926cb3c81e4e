"""Import runs of other machines from folders and archives: checked and copied, never trusted, never executed.

Only files that `archives.is_exported` knows are copied. A run is imported as a whole or not at all: it is filled and
checked in `.incoming/` and then renamed. Checkpoints are compared with their sha256 and not opened; a trainer that
resumes the run loads them with `weights_only`. A run that was active elsewhere does not continue here: its requests
stay behind, and a run without an end is recorded as crashed where it was copied. `imported.json` records the origin.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lps.analysis import naming
from lps.errors import UserError, shorten
from lps.files import disk, versions
from lps.files.atomic import (
    SMALL_FILE,
    as_user_error,
    clean_line,
    disk_error_in_words,
    read_json,
    read_small,
    write_json,
    write_whole,
)
from lps.files.atomic_folder import draft_folder
from lps.files.locks import folder_lock, is_held, try_lock
from lps.files.untrusted_files import MAX_BYTES, UntrustedFile, open_entries
from lps.files.versions import MAX_ARRAYS, MAX_LINE, MAX_NAMES
from lps.interop import untrusted_arrays
from lps.interop.archives import is_exported
from lps.settings.config import Config
from lps.store import inherited_files
from lps.store.desired_state import LARGEST
from lps.store.events import check_version, exceeded_limit, parse_event
from lps.store.run_folders import blocked_by
from lps.store.runs import NOTES_LIMIT, RECORDED_FILE, RUN_ID, Run, clean_text
from lps.wording import counted, data_size

IMPORTED_FILE = "imported.json"
_MAX_TEXT = 256 << 20  # bytes of events.jsonl
_MAX_LOG = 16 << 20
RESERVE = 500 << 20  # bytes of the disk that stay free
ELSEWHERE = "/nonexistent"  # root of paths that the settings need but this machine does not have
OWN_NOW = "it was a recording and is now a run of your own"
_LATER = ("checkpoints", "snapshots", "projections")  # folders to which a later import of the same run may add files
_TEXTS = ("state", "reason", "kind", "host", "boot_id", "slot", "phase")  # keys of records with a text, if present
_NUMBERS = ("attempt", "time", "started", "code", "signal", "epoch", "epochs", "step", "steps", "eta_s")
_IDENTITY = ("events.jsonl", "split.npz")  # runs with equal settings and equal files of these names are the same run


@dataclass(frozen=True)
class Imported:
    """A run that was imported, or was here already. notes: one sentence for everything left out or damaged."""

    run: Run
    is_new: bool
    notes: tuple[str, ...] = ()


def import_runs(path: Path, root: Path, dataset_path: str | None = None, max_bytes: int = MAX_BYTES) -> list[Imported]:
    """Import the runs in `path`, a run's folder, a folder of such folders or an archive of them, into `root`.

    dataset_path: folder of the runs' data set on this machine. Without it their settings name no folder, since a path
    from elsewhere could point at anything here; the same holds for files of start weights. All runs of an archive are
    imported or none. Raises `UserError`.
    """
    imported = []
    for source in _sources(path):
        with _incoming(root) as drafts:
            notes = _copy(source, drafts, root, max_bytes)
            ids = sorted(entry.name for entry in drafts.iterdir())
            if not ids:
                raise UserError("path", f"{shorten(path.name)} has no run: none of its folders is named like a run")
            for run_id in ids:
                notes[run_id] = notes.get(run_id, []) + check_imported_run(
                    Run(drafts / run_id), path.name, dataset_path
                )
            imported += _move_into_runs([drafts / run_id for run_id in ids], root, notes)
    return imported


def _sources(path: Path) -> list[Path]:
    """Return what is imported together: one archive, or each run's folder alone; raises `UserError`."""
    try:
        path = Path(os.path.expanduser(path)).resolve()  # expanduser leaves the home of an unknown user as it is
        path.stat()
    except (OSError, ValueError) as error:
        reason = disk_error_in_words(error) if isinstance(error, OSError) else "it is not a path"
        raise UserError("path", f"{shorten(str(path), 200)} cannot be read ({reason})") from None
    if not path.is_dir() or RUN_ID.fullmatch(path.name):
        return [path]
    folders = sorted(entry for entry in path.iterdir() if RUN_ID.fullmatch(entry.name))
    folders = [folder for folder in folders if folder.is_dir() and not folder.is_symlink()]
    if not folders:
        raise UserError("path", f"{shorten(str(path))} is not a run and has no runs")
    return folders


@contextmanager
def _incoming(root: Path) -> Iterator[Path]:
    """Make an empty folder beside the runs and remove it at the end; raises `UserError` if it cannot be written."""
    incoming, is_new = root / ".incoming", not root.exists()
    with ExitStack() as stack:
        try:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            disk.make_folder(incoming)
            if is_new:
                stack.callback(_remove_empty, root, incoming)
            folder = stack.enter_context(draft_folder(incoming, "import"))
        except OSError as error:
            message = blocked_by(root) or f"{shorten(str(root))} cannot store another run ({error.strerror})"
            raise UserError("runs", message) from None
        yield folder


def _remove_empty(root: Path, incoming: Path) -> None:
    """Remove a folder of runs that an import made and did not fill."""
    if [*root.iterdir()] == [incoming]:
        with suppress(OSError):
            incoming.rmdir()
            root.rmdir()


# ---------------------------------------------------------------------------------------------------- copying


def _copy(source: Path, drafts: Path, root: Path, max_bytes: int) -> dict[str, list[str]]:
    """Write the files of all runs in `source` below `drafts` and return notes by run id.

    A recording is imported as an ordinary run: without the file that marks it as a recording.
    """
    if source.is_dir() and is_held(source / "lock"):
        raise UserError("path", f"{source.name} is running on this machine; stop it first")
    left_out: dict[str, int] = {}
    recorded: set[str] = set()
    with open_entries(source, max_bytes) as files:
        for entry in files:
            run_id, name = split_entry_name(entry.name)
            if not run_id:
                continue
            if is_exported(name):
                _write(entry, drafts / run_id / name, root)
            elif name == RECORDED_FILE:
                recorded.add(run_id)
            elif name not in ("lock", "want.json"):
                left_out[run_id] = left_out.get(run_id, 0) + 1
    notes = {
        run_id: [f"{counted(count, 'file')} left out: not part of the results"] for run_id, count in left_out.items()
    }
    return notes | {run_id: [*notes.get(run_id, []), OWN_NOW] for run_id in recorded}


def split_entry_name(name: str) -> tuple[str, str]:
    """Split an archive entry's name into (run id, name inside the run's folder); ("", "") if it is in no run."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    at = next((index for index, part in enumerate(parts) if RUN_ID.fullmatch(part)), len(parts))
    return (parts[at], "/".join(parts[at + 1 :])) if at < len(parts) - 1 else ("", "")


def _most_bytes(name: str) -> int:
    """Return how many bytes a file of this name may have."""
    kind = name.rpartition(".")[2]
    if name == "log.txt":
        return _MAX_LOG
    return {"json": SMALL_FILE, "jsonl": _MAX_TEXT, "npz": MAX_ARRAYS}.get(kind, MAX_BYTES)


def _write(entry: UntrustedFile, target: Path, root: Path) -> None:
    """Copy an entry to a new file; raises `UserError` if it is too large, exists already or does not fit the disk."""
    name = target.name
    if entry.size > _most_bytes(name):
        raise UserError("archive", f"has a {name} of {data_size(entry.size)}, larger than in any run")
    try:
        if shutil.disk_usage(root).free < entry.size + RESERVE:
            raise UserError("runs", f"{shorten(str(root))} has too little space left for {name}")
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = open(target, "xb", opener=lambda path, flags: os.open(path, flags, 0o600))
    except FileExistsError:
        raise UserError("archive", f"has {name} of {target.parent.name} twice") from None
    except OSError as error:
        raise UserError("runs", f"{name} cannot be written ({error.strerror})") from None
    with target, as_user_error("runs", f"{name} cannot be written"):
        entry.copy_to(target)
        target.flush()
        os.fsync(target.fileno())


def _move_into_runs(drafts: list[Path], root: Path, notes: dict[str, list[str]]) -> list[Imported]:
    """Move checked runs into `root`, all or none; one that is there already stays and must be the same (`_is_same`)."""
    imported, moved_folders = [], []
    with folder_lock(root):
        present = [draft for draft in drafts if os.path.lexists(root / draft.name)]
        for draft in present:
            if not _is_same(draft, root / draft.name):
                reason = "is already here with other results; delete it before you import it"
                raise UserError("run", f"{draft.name} {reason}")
        try:
            for draft in drafts:
                if draft not in present:
                    draft.rename(root / draft.name)
                    moved_folders.append(draft)
        except OSError as error:
            for draft in moved_folders:
                (root / draft.name).rename(draft)
            raise UserError("runs", f"{shorten(str(root))} cannot store another run ({error.strerror})") from None
        disk.sync_folder(root)
    for draft in drafts:
        run, is_new = Run(root / draft.name), draft in moved_folders
        imported.append(Imported(run, is_new, tuple(notes[run.id]) if is_new else _add_later(Run(draft), run)))
    return imported


def _is_same(draft: Path, folder: Path) -> bool:
    """Return whether two runs have the same settings and results, wherever their data sets are."""
    if any(_digest(draft / name) != _digest(folder / name) for name in _IDENTITY):
        return False
    try:
        settings = [_without_local_paths(Run(path).config()).to_json() for path in (draft, folder)]
    except UserError:
        return False
    return settings[0] == settings[1]


def _without_local_paths(config: Config) -> Config:
    """Return the settings without paths of a machine; of start weights the file name stays."""
    weights = config.network_checkpoint and f"{ELSEWHERE}/{os.path.basename(config.network_checkpoint)}"
    return replace(config, dataset_path=None, network_checkpoint=weights)


def _add_later(draft: Run, run: Run) -> tuple[str, ...]:
    """Add files that an imported run lacks, such as checkpoints if it was packed without them the first time.

    Existing files stay as they are. A run that was not imported is never changed.
    """
    if not (run.folder / IMPORTED_FILE).exists():
        return ()
    return _set_dataset_path(draft, run) + _add_files(draft, run)


def _add_files(draft: Run, run: Run) -> tuple[str, ...]:
    missing = [path for name in _LATER for path in sorted((draft.folder / name).glob("*"), key=_record_last)]
    names = [path.relative_to(draft.folder).as_posix() for path in missing]
    names = [name for name in names if not os.path.lexists(run.folder / name)]
    if not names:
        return ()
    kinds = [kind for kind in _LATER if any(name.startswith(f"{kind}/") for name in names)]
    counts = ", ".join(_count_in_words(names, kind) for kind in kinds)
    lock = try_lock(run.lock)
    if lock is None:
        return (f"{counts} not added, because the run is in use here; import the run again when it has ended",)
    try:
        for name in names:
            disk.make_folder((run.folder / name).parent)
            (draft.folder / name).rename(run.folder / name)
            disk.sync_folder((run.folder / name).parent)
    except OSError as error:
        raise UserError("runs", f"{run.id} cannot be completed ({disk_error_in_words(error)})") from None
    finally:
        os.close(lock)
    return (f"missing files were added: {counts}",)


def _record_last(path: Path) -> tuple[bool, str]:
    """Sort a checkpoint's record after the checkpoint, which is valid as soon as its record exists."""
    return path.suffix == ".json", path.name


def _count_in_words(names: list[str], kind: str) -> str:
    """Return how many of the files are of a kind, such as "2 checkpoints"; their .json records are not counted."""
    count = sum(name.startswith(f"{kind}/") and not name.endswith(".json") for name in names)
    return counted(count, kind.removesuffix("s"))


def _set_dataset_path(draft: Run, run: Run) -> tuple[str, ...]:
    """Store the data set's folder in the run's settings if this import names one."""
    data_path = draft.config().dataset_path
    if not data_path:
        return ()
    with run.changing():
        config = run.config()
        if config.dataset_path == data_path:
            return ()
        write_whole(run.folder / "config.json", replace(config, dataset_path=data_path).to_json().encode())
    return (f"its data set is now read from {shorten(data_path, 200)}",)


def _digest(path: Path) -> bytes | None:
    return hashlib.sha256(path.read_bytes()).digest() if path.is_file() else None


# ---------------------------------------------------------------------------------------------------- checking


def check_imported_run(run: Run, origin: str, dataset_path: str | None = None) -> list[str]:
    """Check every file of a copied run and turn it into a run of this machine; raises `UserError`.

    Returns sentences about damage that does no harm.
    """
    notes = _check_config(run, dataset_path)
    notes += _check_events(run) + _check_checkpoints(run) + untrusted_arrays.check_arrays(run)
    versions.check_version("meta.json", run.read_json("meta.json").get("version"))
    notes += _check_records(run) + _check_names(run) + run.damages()
    run.keep_damaged("meta.json")
    meta = run.meta()
    texts = {key: meta[key] for key in ("name", "tags")} | {"notes": meta["notes"][:NOTES_LIMIT]}
    texts |= {"hidden": False, "rev": max(1, meta["rev"])}
    write_json(run.folder / "meta.json", versions.with_version("meta.json", texts))
    os.close(disk.create(run.lock))
    host = run.read_json("process.json").get("host")
    host = clean_line(host, 60) if isinstance(host, str) else "another machine"
    _record_end(run, host)
    origin_record = {"version": 1, "from": clean_line(origin), "host": host, "time": round(time.time(), 3)}
    write_json(run.folder / IMPORTED_FILE, origin_record)
    return notes


def _check_config(run: Run, dataset_path: str | None) -> list[str]:
    """Check that the settings are valid and fit the run's id, and replace paths of the other machine.

    The data set's folder becomes `dataset_path` or none. Start weights keep their file's name only, which the settings
    need to be valid.
    """
    try:
        config = Config.from_json(read_small(run.folder / "config.json").decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = disk_error_in_words(error) if isinstance(error, OSError) else "it is not text"
        raise UserError("config.json", f"of {run.id} is missing or damaged ({reason})") from None
    if f"-{config.dataset}-{config.method}-s{config.seed}-" not in run.id:
        raise UserError("config.json", f"of {run.id} belongs to another run")
    notes = []
    if config.dataset_path and not dataset_path:
        notes = ["its data set is on another machine: to see its images, import it with --dataset-path PATH"]
    if config.network_checkpoint:
        notes += [
            "its start weights are on another machine: to launch a copy, set network.checkpoint to their file here"
        ]
    if config.dataset_path or config.network_checkpoint:
        data_path = os.path.abspath(dataset_path) if config.dataset_path and dataset_path else None
        config = replace(_without_local_paths(config), dataset_path=data_path)
        write_whole(run.folder / "config.json", config.to_json().encode())
    return notes


def _check_events(run: Run) -> list[str]:
    """Count the damaged lines, which every reader skips; the last line may be incomplete.

    Raises `UserError` for lines, numbers of measurements or damage beyond what any run records.
    """
    if not run.events.is_file():
        return []
    check_version(run.events)
    num_sound, num_damaged, names = 0, 0, set()
    with open(run.events, "rb") as file:
        while line := file.readline(MAX_LINE + 1):
            if len(line) > MAX_LINE:
                raise UserError("events.jsonl", f"of {run.id} has a line of more than {MAX_LINE >> 20} MB")
            if not line.endswith(b"\n"):
                continue
            event = parse_event(line)
            num_sound, num_damaged = num_sound + (event is not None), num_damaged + (event is None)
            if event is None and (reason := exceeded_limit(line)):
                raise UserError("events.jsonl", f"of {run.id} has {reason}")
            names.update(event["values"] if event else ())
            if len(names) > MAX_NAMES:
                raise UserError("events.jsonl", f"of {run.id} has more than {MAX_NAMES:,} measurements")
    if num_damaged > num_sound:
        raise UserError("events.jsonl", f"of {run.id} has more damaged lines ({num_damaged}) than events ({num_sound})")
    return [f"{counted(num_damaged, 'damaged line')} of events.jsonl skipped"] if num_damaged else []


def _check_checkpoints(run: Run) -> list[str]:
    """Remove checkpoints that do not match their sha256; none is opened."""
    damaged = []
    for path in (*sorted(run.checkpoints.glob("*.pt")), *run.folder.glob(f"{inherited_files.WEIGHTS}.pt")):
        record = read_json(path.with_suffix(".json"))
        with open(path, "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != record.get("sha256"):
                damaged.append(path)
    for path in damaged:
        path.unlink()
        path.with_suffix(".json").unlink(missing_ok=True)
    return [f"checkpoint {path.stem} is damaged and was left out" for path in damaged]


def _check_records(run: Run) -> list[str]:
    """Remove damaged records; the state of the run is then derived from the remaining files."""
    damaged = []
    for name in ("exit.json", "process.json", "progress.json"):
        if (run.folder / name).exists() and not _is_record(run.read_json(name)):
            (run.folder / name).unlink()
            damaged.append(name)
    return [f"{name} is damaged and was left out" for name in damaged]


def _is_record(stored: dict) -> bool:
    """Return whether the texts of a record are printable and its numbers are within limits."""
    texts = [stored[key] for key in _TEXTS if stored.get(key) is not None]
    numbers = [stored[key] for key in _NUMBERS if stored.get(key) is not None]
    are_texts = all(isinstance(text, str) and clean_text(text) == text for text in texts)
    return bool(stored) and are_texts and all(type(n) in (int, float) and abs(n) < LARGEST for n in numbers)


def _check_names(run: Run) -> list[str]:
    """Remove cluster names that cannot be read."""
    try:
        naming.read_entries(run)
    except UserError as error:
        (run.folder / naming.FILE).unlink()
        return [f"{naming.FILE} was left out: it {str(error).partition(': ')[2].replace(' and was not changed', '')}"]
    return []


def _record_end(run: Run, host: str) -> None:
    """Record an end for a run that has none, so that it neither waits nor continues here; it can be resumed."""
    state = run.state()
    if state.is_over and state.name != "crashed":
        return
    if state.name == "crashed":
        reason = f"had not ended on {host} when it was copied: it was running there or had crashed"
        exit_record = {"attempt": max(1, state.attempt), "state": "crashed", "kind": "copied", "reason": reason}
    else:
        reason = f"had not started on {host} when it was copied"
        exit_record = {"attempt": 1, "state": "stopped", "kind": "", "reason": reason}
    write_json(
        run.folder / "exit.json", exit_record | {"code": None, "signal": None, "forced": False, "time": time.time()}
    )


def as_json(imported: Imported) -> dict:
    """Return the result of importing one run, for scripts."""
    return {"run": str(imported.run.folder), "new": imported.is_new, "notes": list(imported.notes)}
