"""Send messages when a run ends, fails or raises an alarm. Off until LPS_NOTIFY names a receiver.

    LPS_NOTIFY="jsons://example.org/hook mailtos://me:secret@example.org desktop://"    addresses of Apprise, by spaces
    LPS_NOTIFY_DETAILS=1    also send what may describe private pictures: the run's name and folder, and reasons

    python -m lps.interop.notifications FOLDER    send what is due for this run; the runner calls it

Each message is sent once (`messages.json` of the run), and a folder of runs sends at most `MAX_PER_HOUR` messages per
hour; the next message says how many were withheld. A message that did not arrive is not sent again after Apprise's own
retries.
"""

import logging
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from lps.analysis import run_index
from lps.errors import UserError, shown
from lps.files.atomic import read_json, write_json
from lps.files.locks import folder_lock
from lps.scheduler.failures import ADVICE
from lps.store import titles
from lps.store.runs import Run
from lps.store.summary import summarize
from lps.wording import counted

SETTING, DETAILS = "LPS_NOTIFY", "LPS_NOTIFY_DETAILS"
_MESSAGES_FILE = "messages.json"  # in a run's folder: time of every message by its key
SENT = ".messages.json"  # in the folder of the runs: times of the messages of the last hour
MAX_PER_HOUR, PERIOD_S = 10, 3600.0
_ENDS = {"finished": "finished", "failed": "failed", "crashed": "failed"}


@dataclass(frozen=True)
class Message:
    """A message about a run. key: its kind, sent once per run; private: text for LPS_NOTIFY_DETAILS alone."""

    key: str
    title: str
    body: str
    private: str = ""


def addresses() -> list[str]:
    return os.environ.get(SETTING, "").split()


def kinds() -> list[str]:
    """Return the scheme of every address; the rest can hold a password and is never shown."""
    return [_kind(address) for address in addresses()]


def _kind(address: str) -> str:
    scheme, mark, _ = address.partition("://")
    return shown(scheme) if mark else "a text without ://"


def receivers():
    """Return all receivers as one `apprise.Apprise`; raises `UserError` for an address that Apprise does not know."""
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it would print addresses
    import apprise
    from apprise.decorators import notify

    notify(on="desktop", name="the desktop of this machine")(_on_desktop)
    notifier = apprise.Apprise()
    for number, text in enumerate(addresses(), 1):
        if not notifier.add(text):
            reason = f"address {number} ({_kind(text)}) is not known to Apprise; expected for example jsons://example.org/hook"
            raise UserError(SETTING, f"{reason}, mailtos://me:secret@example.org or desktop://")
    return notifier


def _on_desktop(body: str, title: str, *_, **__) -> bool:
    """Show a desktop notification with the program that Linux or macOS has for it; returns whether that worked."""
    quoted = [text.replace("\\", " ").replace('"', "'") for text in (body, title)]
    commands = {
        "notify-send": ["--app-name=LPS Studio", title, body],
        "osascript": ["-e", 'display notification "{}" with title "{}"'.format(*quoted)],
    }
    for program, arguments in commands.items():
        if shutil.which(program):
            return subprocess.run([program, *arguments], timeout=10, check=False, capture_output=True).returncode == 0
    return False


# ---------------------------------------------------------------------------------------------------- what is due


def _due_messages(run: Run) -> list[Message]:
    """Return the messages that the run's present state calls for, sent already or not."""
    state, run_words = run.state(), _describe_run(run)
    private = f"{titles.run_title(run)}, {run.folder}"
    if state.name in _ENDS:
        reason = f"; {state.reason}" if state.reason else ""
        kind = state.kind if state.kind in ADVICE else "unknown"  # any other text may contain a user's folders
        body = _result(run) if state.name == "finished" else f"kind: {kind}"
        return [Message(f"end-{state.attempt}", f"{run_words} {_ENDS[state.name]}", body, private + reason)]
    if state.is_over:
        return []
    alarms = run_index.measure_run(run).alarms
    return [
        Message(alarm.kind, f"{run_words}: {alarm.title}", f"epoch {alarm.epoch}: {alarm.words}", private)
        for alarm in alarms
    ]


def _describe_run(run: Run) -> str:
    try:
        config = run.config()
    except UserError:
        return "A run"
    return f"{titles.default_title(config.method, config.dataset, config.seed)} ({titles.short_id(run.id)})"


def _result(run: Run) -> str:
    summary = summarize(run)
    values = {name: summary["last"].get(f"accuracy/{name}") for name in ("seen", "novel", "all")}
    scores = [f"{name} {100 * value:.1f} %" for name, value in values.items() if isinstance(value, (int, float))]
    return ": ".join([counted(summary["epochs"], "epoch"), *filter(None, [", ".join(scores)])])


def send_due_messages(run: Run) -> int:
    """Send the due messages that were not sent before; returns how many arrived."""
    with folder_lock(run.folder):
        sent_record = run.read_json(_MESSAGES_FILE)
        fresh = [message for message in _due_messages(run) if message.key not in sent_record]
        if fresh:
            write_json(run.folder / _MESSAGES_FILE, sent_record | {message.key: time.time() for message in fresh})
    return sum(send_message(run.root, message) for message in fresh)


# ---------------------------------------------------------------------------------------------------- sending


def send_message(root: Path, message: Message) -> bool:
    """Send a message to all receivers within the hourly limit; return whether all got it; raises `UserError`."""
    notifier = receivers()
    if not len(notifier):
        return False
    num_withheld = _reserve_message(root)
    if num_withheld is None:
        return False
    lines = [message.body]
    if os.environ.get(DETAILS) == "1" and message.private:
        lines.append(message.private)
    if num_withheld:
        were = "was" if num_withheld == 1 else "were"
        lines.append(
            f"{counted(num_withheld, 'message')} before this one {were} not sent, "
            f"because at most {MAX_PER_HOUR} are sent per hour"
        )
    return bool(notifier.notify(title=f"LPS Studio: {message.title}", body="\n".join(lines)))


def _reserve_message(root: Path) -> int | None:
    """Count one more message of this hour; returns how many were withheld before it, None if the limit is reached."""
    now, file = time.time(), root / SENT
    with folder_lock(root):
        record = read_json(file)
        times, num_withheld = record.get("sent"), record.get("held")
        times = times if isinstance(times, list) else []
        recent_times = [t for t in times if isinstance(t, (int, float)) and now - PERIOD_S < t <= now]
        num_withheld = max(num_withheld, 0) if type(num_withheld) is int else 0
        is_free = len(recent_times) < MAX_PER_HOUR
        sent = [*recent_times, now] if is_free else recent_times
        write_json(file, {"sent": sent, "held": 0 if is_free else num_withheld + 1})
    return num_withheld if is_free else None


if __name__ == "__main__":
    send_due_messages(Run(Path(sys.argv[1])))
