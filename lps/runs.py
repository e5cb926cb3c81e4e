"""A run is a folder: what its files are called, how they are written and read, and the state they add up to.

Standard library only. Every file has one writer; whole files are replaced atomically, `events.jsonl` is appended to.

    config.json   what was asked; written once                  writer: whoever creates the run
    meta.json     name, notes, tags, rev                        writer: pages and command line
    want.json     {"want": run | stop | kill, "attempt": n, "time": unix seconds}   writer: pages and command line
    lock          an empty file under a kernel flock while the run is alive; never unlinked
    process.json  attempt, host, boot id, pids, slot            writer: runner
    log.txt       what the trainer printed                      writer: runner
    exit.json     how the attempt ended                         writer: runner, its last act before the lock is free
    events.jsonl  one JSON line per event                       writer: trainer
    progress.json phase, epoch, step, steps, eta_s, time        writer: trainer, at most once a second
    split.npz, checkpoints/, snapshots/                         writer: trainer
    projections/  2-D maps                                      writer: `python -m lps project`

Beside the runs: `.trash/` (deleted runs, for a week), `.incoming/` (folders in the making), `.slots/`, `.sched.lock`.
"""

import errno
import fcntl
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lps.config import Config
from lps.parameters import ConfigError, shorten

EVENT_KINDS = ("start", "pretrain", "train", "eval", "finish", "stop", "fail")
ALIVE = ("starting", "running", "stopping")
OVER = ("finished", "stopped", "failed", "crashed")
STATES = ("queued", *ALIVE, *OVER, "unreadable")
RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[a-z0-9_]+-[a-z0-9_]+-s[0-9]+-[a-z0-9]{6}")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
SMALL_FILE = 1 << 20  # bytes; a JSON file of ours that is larger is damaged
TRASH_S = 7 * 86_400  # how long a deleted run stays in .trash
NOTES_LIMIT, TAG_LIMIT = 20_000, 40  # characters
INCOMING_S = 3600  # after this time a half-made folder has no maker any more


@dataclass(frozen=True)
class State:
    """Where a run stands, derived on every read. `kind` and `reason` explain a failure, a crash or a damage."""

    name: str
    reason: str = ""
    kind: str = ""
    attempt: int = 0

    @property
    def is_alive(self) -> bool:
        return self.name in ALIVE

    @property
    def is_over(self) -> bool:
        return self.name in OVER


@dataclass(frozen=True)
class Run:
    """The folder of one run. Making the object touches no file."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def root(self) -> Path:
        return self.folder.parent

    @property
    def events(self) -> Path:
        return self.folder / "events.jsonl"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def snapshots(self) -> Path:
        return self.folder / "snapshots"

    @property
    def projections(self) -> Path:
        return self.folder / "projections"

    def config(self) -> Config:
        """What was asked; raises `ConfigError` where the file is missing or damaged."""
        path = self.folder / "config.json"
        try:
            about = os.stat(path)
            return _read_config(str(path), about.st_mtime_ns, about.st_size, about.st_ino)
        except FileNotFoundError:
            raise ConfigError("config.json", "is missing: this folder is no run") from None
        except OSError as error:
            raise ConfigError("config.json", f"cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise ConfigError("config.json", "is not UTF-8 text") from None

    def meta(self) -> dict:
        """Name, notes, tags and the revision they were read at; empty ones where the file is missing or damaged."""
        stored = self.read_json("meta.json")
        name, notes, tags = (stored.get(key) for key in ("name", "notes", "tags"))
        tags = tags if isinstance(tags, list) else []
        return {
            "name": clean_line(name) if isinstance(name, str) else "",
            "notes": notes if isinstance(notes, str) else "",
            "tags": [clean_line(tag, TAG_LIMIT) for tag in tags if isinstance(tag, str)],
            "rev": _whole(stored.get("rev")),
        }

    def write_meta(self, *, name=None, notes=None, tags=None, rev: int | None = None) -> None:
        """Replace some of name (text), notes (text), tags (texts).

        rev: the revision that the person was looking at; `ConfigError` where somebody has saved another one meanwhile.
        """
        with locked(self.folder):
            meta = self.meta()
            if rev not in (None, meta["rev"]):
                raise ConfigError("rev", f"{shorten(rev)} is not {meta['rev']}: somebody saved other texts meanwhile")
            if name is not None:
                meta["name"] = clean_line(name)
            if notes is not None:
                meta["notes"] = str(notes)[:NOTES_LIMIT]
            if tags is not None:
                meta["tags"] = list(dict.fromkeys(filter(None, (clean_line(tag, TAG_LIMIT) for tag in tags))))
            write_json(self.folder / "meta.json", meta | {"rev": meta["rev"] + 1})

    @property
    def title(self) -> str:
        """The name a person gave the run, else its id."""
        return self.meta()["name"] or clean_line(self.id)

    def read_json(self, name: str) -> dict:
        """The object in one of the run's small files; empty where it is missing or damaged."""
        try:
            value = json.loads(_read_small(self.folder / name))
        except (OSError, ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def state(self) -> State:
        """The state that the lock and the records add up to (design: derived, never stored).

        The order of reading matters: an attempt in process.json and a lock found free *after* it mean that this attempt
        is over, and its exit record, written before the lock was let go, can be read by then.
        """
        started = self._begun_attempt()
        held = is_held(self.lock)
        ended, want = self.read_json("exit.json"), self.read_json("want.json")
        over, wanted, word = _whole(ended.get("attempt")), _whole(want.get("attempt")), want.get("want")
        started = max(started, over)
        if held and (wanted > started or over < started or not started):
            return _alive(started, wanted, word)
        try:
            self.config()
        except ConfigError as error:
            return State("unreadable", str(error), "config")
        if wanted > started:
            return State("queued", attempt=wanted) if word == "run" else _cancelled(wanted)
        if over and over == started:
            return _ended(ended)
        if started:
            return State("crashed", self._crash_reason(), "killed", started)
        return State("queued", "not launched yet", attempt=1)

    def waiting_attempt(self) -> int:
        """The attempt that a person has asked for and that has not begun; 0 where there is none. Looks at no lock."""
        want = self.read_json("want.json")
        wanted = _whole(want.get("attempt"))
        if want.get("want") != "run" or wanted <= self._begun_attempt():
            return 0
        return wanted if wanted > _whole(self.read_json("exit.json").get("attempt")) else 0

    def _begun_attempt(self) -> int:
        """The attempt in process.json; a damaged one counts as the newest, so that no attempt is begun twice."""
        process = self.read_json("process.json")
        if not process and os.path.lexists(self.folder / "process.json"):
            return max(1, _whole(self.read_json("want.json").get("attempt")))
        return _whole(process.get("attempt"))

    def _crash_reason(self) -> str:
        recorded = self.read_json("process.json").get("boot_id")
        if recorded and recorded != boot_id():
            return "the machine was restarted while the run was going"
        return "the run's processes were killed"


def _alive(started: int, wanted: int, word) -> State:
    """The state of a run whose lock is held."""
    attempt = max(started, wanted, 1)
    if word in ("stop", "kill") and wanted >= started:
        return State("stopping", attempt=attempt)
    return State("starting" if wanted > started or not started else "running", attempt=attempt)


def _cancelled(attempt: int) -> State:
    return State("stopped", "cancelled before it began", attempt=attempt)


def _ended(record: dict) -> State:
    """The state that an exit record states."""
    name = record.get("state")
    reason, kind = clean_line(record.get("reason") or "", 500), clean_line(record.get("kind") or "")
    if name not in OVER:
        return State("crashed", "exit.json is damaged", "killed", _whole(record.get("attempt")))
    return State(name, reason, kind, _whole(record.get("attempt")))


@lru_cache(maxsize=4096)
def _read_config(path: str, mtime_ns: int, size: int, inode: int) -> Config:
    """The settings in the version of the file that the other arguments name."""
    return Config.from_json(_read_small(Path(path)).decode("utf-8"))


def create_run(root: Path, config: Config, name: str = "", token: str | None = None) -> Run:
    """A new run folder with `config.json` and `meta.json`, complete from the moment it can be seen; nothing is started.

    `token` (a form's one-time key) makes the call idempotent: the same token and settings give the same folder, however
    many servers and threads ask at once. Raises `ConfigError` where `root` cannot be written to.
    """
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        tail = _tail(f"{token}\n{config.to_json()}" if token else secrets.token_hex())
        with locked(root):
            made = [run for run in list_runs(root) if token and run.id.endswith(f"-s{config.seed}-{tail}")]
            return made[0] if made else _make_folder(root, config, name, tail)
    except OSError as error:
        raise ConfigError("runs", f"{shorten(str(root))} cannot hold a new run ({error.strerror})") from None


def _make_folder(root: Path, config: Config, name: str, tail: str) -> Run:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    run = Run(root / f"{stamp}-{config.dataset}-{config.method}-s{config.seed}-{tail}")
    draft = root / ".incoming" / f"{run.id}.{secrets.token_hex(4)}"
    draft.parent.mkdir(exist_ok=True, mode=0o700)
    draft.mkdir(mode=0o700)
    try:
        draft.joinpath("lock").touch(mode=0o600)
        write_json(draft / "meta.json", {"name": clean_line(name), "notes": "", "tags": [], "rev": 1})
        write_whole(draft / "config.json", config.to_json().encode())
        draft.rename(run.folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    sync_folder(root)
    return run


def _tail(text: str) -> str:
    """Six letters and digits that follow from `text`."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return "".join(LETTERS[number // len(LETTERS) ** place % len(LETTERS)] for place in range(6))


def list_runs(root: Path) -> list[Run]:
    """Every folder under `root` that is or could be a run, newest first, foreign ones last; no hidden ones or links."""
    try:
        with os.scandir(root) as entries:
            names = [e.name for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    names.sort(key=lambda name: (bool(RUN_ID.fullmatch(name)), name), reverse=True)
    return [Run(root / name) for name in names]


def find_run(root: Path, text: str) -> Run:
    """The run called `text`: its id, the end of its id, or the path of its folder; raises `ConfigError`."""
    if "/" in text and RUN_ID.fullmatch(Path(text).name) and os.path.isdir(text):
        return Run(Path(text))
    runs = list_runs(root)
    exact = [run for run in runs if run.id == text]
    found = exact or [run for run in runs if len(text) >= 3 and run.id.endswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError("run", f"{shorten(text)} fits {len(found)} runs: {', '.join(run.id for run in found[:5])}")
    some = ", ".join(run.id for run in runs[:3]) or "none yet"
    raise ConfigError("run", f"{shorten(text)} is not in {root}; newest runs: {some}")


def delete_run(run: Run) -> None:
    """Move a run to `.trash/` (one rename, kept for a week); raises `ConfigError` while it is alive."""
    state = run.state()
    try:
        descriptor = None if state.is_alive else claim(run.lock)
        if descriptor is None:
            raise ConfigError("run", f"{run.id} is {_presence(run)}")
        try:
            trash = run.root / ".trash"
            trash.mkdir(exist_ok=True, mode=0o700)
            run.folder.rename(trash / f"{run.id}.{secrets.token_hex(4)}")
            sync_folder(run.root)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigError("run", f"{run.id} cannot be deleted ({error.strerror})") from None
    _purge(trash, TRASH_S)
    _purge(run.root / ".incoming", INCOMING_S)


def _presence(run: Run) -> str:
    """Why the lock of a run could not be had, as the end of a sentence."""
    return f"{run.state().name}; stop it before you delete it" if run.folder.is_dir() else "already deleted"


def _purge(folder: Path, age_s: float) -> None:
    """Remove what came into `folder` more than `age_s` seconds ago (a rename sets an entry's change time)."""
    for path in folder.glob("*"):
        if time.time() - path.lstat().st_ctime > age_s:
            shutil.rmtree(path, ignore_errors=True)


# ---------------------------------------------------------------------------------------------------- events


class EventWriter:
    """Appends to `events.jsonl`. Opening it cuts off a torn last line, the only thing that is ever erased."""

    def __init__(self, path: Path):
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._end = end_of_events(path)
        os.ftruncate(self._file, self._end)

    def append(self, kind: str, *, step: int, epoch: int, values: dict, **more) -> None:
        """One event, handed to the kernel before the call returns; non-finite numbers become null.

        Raises `OSError` (a full disk, say) and leaves no part of the line behind.
        """
        event = {"kind": kind, "step": step, "epoch": epoch, "time": round(time.time(), 3), "values": values}
        line = json.dumps(finite(event | more), allow_nan=False, separators=(",", ":")).encode() + b"\n"
        rest = line
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, self._end)
            raise
        self._end += len(line)

    def sync(self) -> None:
        """Wait until the disk has everything."""
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


def read_events(path: Path, offset: int = 0) -> tuple[list[dict], int]:
    """The whole lines after byte `offset`, and the offset to go on from. Damaged lines are left out.

    A file that has become shorter than `offset` is another file: it is read from its beginning, and the returned
    offset, smaller than the one passed in, tells the caller to forget what was read before.
    """
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < offset:
                offset = 0
            file.seek(offset)
            data = file.read()
    except OSError:
        return [], 0
    end = data.rfind(b"\n") + 1
    return [event for line in data[:end].split(b"\n") if (event := _event(line)) is not None], offset + end


def read_last_event(path: Path, since: int = 0, window: int = 1 << 18) -> dict | None:
    """The last event after byte `since`, None where there is none; reads at most the last `window` bytes."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = max(since, size - window, 0)
            file.seek(start)
            data = file.read()
    except OSError:
        return None
    whole = data[: data.rfind(b"\n") + 1]
    lines = (whole if start == since else whole.partition(b"\n")[2]).split(b"\n")
    return next((event for line in reversed(lines) if (event := _event(line)) is not None), None)


def rewind(events: list[dict]) -> list[dict]:
    """The history without what a later attempt did over.

    A `start` at epoch e drops records of later epochs before it; a pretraining epoch that is done again drops its
    earlier record and those after it.
    """
    history = []
    for event in events:
        epoch = event["epoch"]
        if event["kind"] == "start":
            history = [e for e in history if e["kind"] in ("start", "pretrain") or e["epoch"] <= epoch]
        elif event["kind"] == "pretrain" and "pretrain/reused" not in event["values"]:
            history = [e for e in history if e["kind"] != "pretrain" or e["epoch"] < epoch]
        history.append(event)
    return history


def end_of_events(path: Path) -> int:
    """The byte after the last whole line: where the next event begins. 0 for a missing file."""
    try:
        with open(path, "rb") as file:
            return _end_of_last_line(file)
    except FileNotFoundError:
        return 0


def _event(line: bytes) -> dict | None:
    try:
        event = finite(json.loads(line))
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or event.get("kind") not in EVENT_KINDS or not isinstance(event.get("values"), dict):
        return None
    return event if all(_is_number(event.get(key)) for key in ("step", "epoch", "time")) else None


def _is_number(value) -> bool:
    return type(value) in (int, float) and abs(value) < 2**53


def _end_of_last_line(file) -> int:
    position = file.seek(0, os.SEEK_END)
    while position > 0:
        start = max(0, position - 65_536)
        file.seek(start)
        newline = file.read(position - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        position = start
    return 0


# ---------------------------------------------------------------------------------------------------- locks


def claim(path: Path, patience: float = 1.0) -> int | None:
    """An exclusive kernel lock on `path` as an open descriptor, None where somebody else holds it.

    Waits up to `patience` seconds, since a reader's probe holds a shared lock for a moment.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_file_at(descriptor, path):
                return descriptor
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                os.close(descriptor)
                raise
        os.close(descriptor)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.01)


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock on `path` (tried with a shared lock, let go at once)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One at a time, over all processes and threads, inside the `with`: a kernel lock on the folder itself."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def boot_id() -> str:
    """A name for the time since the machine started; "" where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def is_file_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at `path` (it may have been deleted or moved meanwhile)."""
    try:
        ours, there = os.fstat(descriptor), os.stat(path)
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


# ---------------------------------------------------------------------------------------------------- files


def write_whole(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, or leave it as it was: temp file, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows the folder's entries."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: dict) -> None:
    """Replace `path` by a JSON object, as `write_whole` does; raises `ValueError` for non-finite numbers."""
    write_whole(path, json.dumps(value, allow_nan=False, indent=1).encode() + b"\n")


def finite(value):
    """The same numbers, lists and dicts with None in place of NaN and infinities (JSON has no word for them)."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def clean_line(text: str, limit: int = 120) -> str:
    """A name as one printable line: control and format characters become spaces, at most `limit` characters."""
    text = unicodedata.normalize("NFC", str(text)[: 4 * limit])
    return "".join(c if c.isprintable() else " " for c in text)[:limit].strip()


def _read_small(path: Path) -> bytes:
    """The bytes of one of our small files; raises `OSError`, also for links and huge files. Pipes do not block it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(descriptor, "rb") as file:
        data = file.read(SMALL_FILE + 1)
    if len(data) > SMALL_FILE:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data


def _whole(value) -> int:
    """An attempt number as it was stored, 0 where it is none."""
    return value if type(value) is int and 0 < value < 2**53 else 0
