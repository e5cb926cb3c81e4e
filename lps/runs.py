"""A run is a folder: what its files are called, how they are written and read, and the state they add up to.

Standard library only. Every file has one writer; whole files are replaced atomically, `events.jsonl` is appended to.

    config.json   what was asked; written once                  writer: whoever creates the run
    meta.json     name, notes, tags, rev                        writer: pages and command line
    want.json     {"want": run | stop | kill, "attempt": n}     writer: pages and command line
    lock          an empty file under a kernel flock while the run is alive; never unlinked
    process.json  attempt, host, boot id, pids, slot            writer: runner
    log.txt       what the trainer printed                      writer: runner
    exit.json     how the attempt ended                         writer: runner, its last act before the lock is free
    events.jsonl  one JSON line per event                       writer: trainer
    progress.json phase, epoch, step, steps, eta_s, time        writer: trainer, at most once a second
    split.npz, checkpoints/, snapshots/                         writer: trainer
    projections/  2-D maps                                      writer: `python -m lps project`
"""

import errno
import fcntl
import json
import math
import os
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from lps.config import Config
from lps.parameters import ConfigError, shorten

EVENT_KINDS = ("start", "pretrain", "train", "eval", "finish", "stop", "fail")
ALIVE = ("starting", "running", "stopping")
OVER = ("finished", "stopped", "failed", "crashed")
STATES = ("queued", *ALIVE, *OVER, "unreadable")
RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[a-z0-9_]+-[a-z0-9_]+-s[0-9]+-[a-z0-9]{6}")


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
        try:
            text = (self.folder / "config.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ConfigError("config.json", "is missing: this folder is no run") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("config.json", f"cannot be read ({error})") from None
        return Config.from_json(text)

    def meta(self) -> dict:
        """Name, notes, tags and the revision they were read at; empty ones where the file is missing or damaged."""
        stored = self.read_json("meta.json")
        tags = stored.get("tags")
        return {
            "name": stored["name"] if isinstance(stored.get("name"), str) else "",
            "notes": stored["notes"] if isinstance(stored.get("notes"), str) else "",
            "tags": [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else [],
            "rev": stored["rev"] if isinstance(stored.get("rev"), int) else 0,
        }

    def write_meta(self, **changes) -> None:
        """Replace some of name, notes, tags."""
        meta = self.meta() | changes
        meta["name"] = clean_line(meta["name"])
        write_json(self.folder / "meta.json", meta | {"rev": meta["rev"] + 1})

    @property
    def title(self) -> str:
        """The name a person gave the run, else its id."""
        return self.meta()["name"] or self.id

    def read_json(self, name: str) -> dict:
        """The object in one of the run's small files; empty where it is missing or damaged."""
        try:
            value = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def state(self) -> State:
        """The state that the lock and the records add up to (design: derived, never stored)."""
        held = is_held(self.lock)
        want, process = self.read_json("want.json"), self.read_json("process.json")
        ended = self.read_json("exit.json")
        started = _whole(process.get("attempt"))
        wanted = _whole(want.get("attempt"))
        if held:
            if started < wanted or not process:
                return State("starting", attempt=max(wanted, 1))
            stopping = want.get("want") in ("stop", "kill") and wanted == started
            return State("stopping" if stopping else "running", attempt=started)
        if wanted > started:
            if want.get("want") == "run":
                return State("queued", attempt=wanted)
            return State("stopped", "cancelled before it began", attempt=wanted)
        if started and _whole(ended.get("attempt")) == started:
            reason, kind = str(ended.get("reason") or ""), str(ended.get("kind") or "")
            name = ended.get("state") if ended.get("state") in OVER else "crashed"
            return State(name, reason, kind, started)
        if started:
            return State("crashed", self._crash_reason(process), "killed", started)
        try:
            self.config()
        except ConfigError as error:
            return State("unreadable", str(error), "config")
        return State("queued", attempt=1)

    @staticmethod
    def _crash_reason(process: dict) -> str:
        if process.get("boot_id") not in (None, boot_id()):
            return "the machine was restarted while the run was going"
        return "the run's processes were killed"


def create_run(root: Path, config: Config, name: str = "", token: str | None = None) -> Run:
    """A new run folder with `config.json` and `meta.json`; nothing is started.

    `token` (a form's one-time key, letters and digits) makes the call idempotent: the same token gives the same folder.
    """
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    tail = token[:6].lower() if token else "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(6))
    if token:
        for run in list_runs(root):
            if run.id.endswith(f"-s{config.seed}-{tail}"):
                return run
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    folder = root / f"{stamp}-{config.dataset}-{config.method}-s{config.seed}-{tail}"
    folder.mkdir(mode=0o700)
    run = Run(folder)
    folder.joinpath("lock").touch(mode=0o600)
    write_json(folder / "meta.json", {"name": clean_line(name), "notes": "", "tags": [], "rev": 1})
    write_whole(folder / "config.json", config.to_json().encode())
    return run


def list_runs(root: Path) -> list[Run]:
    """Every folder under `root` that is or could be a run, newest first; hidden ones and links are left out."""
    try:
        with os.scandir(root) as entries:
            names = [e.name for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [Run(root / name) for name in sorted(names, reverse=True)]


def find_run(root: Path, text: str) -> Run:
    """The run called `text`: its id, the end of its id, or the path of its folder; raises `ConfigError`."""
    wanted = Path(text).name if "/" in text else text
    runs = list_runs(Path(text).parent if "/" in text and Path(text).is_dir() else root)
    exact = [run for run in runs if run.id == wanted]
    found = exact or [run for run in runs if len(wanted) >= 3 and run.id.endswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError("run", f"{shorten(text)} fits {len(found)} runs: {', '.join(run.id for run in found[:5])}")
    some = ", ".join(run.id for run in runs[:3]) or "none yet"
    raise ConfigError("run", f"{shorten(text)} is not in {root}; newest runs: {some}")


def delete_run(run: Run) -> None:
    """Move a run that is not alive to `.trash/` (one rename); raises `ConfigError` while it is alive."""
    descriptor = claim(run.lock, patience=0)
    if descriptor is None:
        raise ConfigError("run", f"{run.id} is {run.state().name}; stop it before you delete it")
    try:
        trash = run.root / ".trash"
        trash.mkdir(exist_ok=True, mode=0o700)
        run.folder.rename(trash / f"{run.id}.{secrets.token_hex(4)}")
    finally:
        os.close(descriptor)


# ---------------------------------------------------------------------------------------------------- events


class EventWriter:
    """Appends to `events.jsonl`. Opening it cuts off a torn last line, the only thing that is ever erased."""

    def __init__(self, path: Path):
        self._file = open(path, "ab+")
        self._file.truncate(_end_of_last_line(self._file))

    def append(self, kind: str, *, step: int, epoch: int, values: dict, **more) -> None:
        """One event, handed to the kernel before the call returns; non-finite numbers become null."""
        event = {"kind": kind, "step": step, "epoch": epoch, "time": round(time.time(), 3), "values": finite(values)}
        self._file.write(json.dumps(event | more, allow_nan=False, separators=(",", ":")).encode() + b"\n")
        self._file.flush()

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_events(path: Path, offset: int = 0) -> tuple[list[dict], int]:
    """The whole lines after byte `offset`, and the offset to go on from. Damaged lines are left out.

    A file that has become shorter than `offset` is read again from its beginning by the caller: (None offset is 0).
    """
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], 0
    end = data.rfind(b"\n") + 1
    events = [event for line in data[:end].splitlines() if (event := _event(line)) is not None]
    return events, offset + end


def rewind(events: list[dict]) -> list[dict]:
    """The history without the epochs that a resumed attempt did over: a `start` at epoch e drops later records before it."""
    history = []
    for event in events:
        if event["kind"] == "start":
            history = [e for e in history if e["kind"] in ("start", "pretrain") or e["epoch"] <= event["epoch"]]
        history.append(event)
    return history


def _event(line: bytes) -> dict | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or event.get("kind") not in EVENT_KINDS:
        return None
    numbers = all(isinstance(event.get(key), (int, float)) for key in ("step", "epoch", "time"))
    return event if numbers and isinstance(event.get("values"), dict) else None


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
            if _same_file(descriptor, path):
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
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def boot_id() -> str:
    """A name for the time since the machine started; "" where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _same_file(descriptor: int, path: Path) -> bool:
    """Whether the locked file is still the one at `path` (it may have been moved to the trash meanwhile)."""
    try:
        ours, there = os.fstat(descriptor), os.stat(path)
    except FileNotFoundError:
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
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: dict) -> None:
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
    return "".join(c if c.isprintable() else " " for c in str(text))[:limit].strip()


def _whole(value) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
