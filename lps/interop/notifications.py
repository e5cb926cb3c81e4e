"""Messages that leave the machine: a run ended, failed or goes wrong. Off until LPS_NOTIFY names somebody to tell.

    LPS_NOTIFY="jsons://example.org/hook mailtos://me:secret@example.org desktop://"    addresses of Apprise, by spaces
    LPS_NOTIFY_DETAILS=1    what may tell of a person's pictures as well: the run's name and folder, and reasons

    python -m lps.interop.notifications FOLDER    what is to be told of this run now; the runner calls it

Each thing is told once (`messages.json` of the run), and a folder of runs sends at most `MOST` messages an hour;
how many were held back stands in the next one. What did not arrive is not tried again after Apprise's own tries.
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
from lps.files.atomic import write_json
from lps.files.locks import folder_lock
from lps.scheduler.failures import ADVICE
from lps.store import titles
from lps.store.runs import Run
from lps.store.summary import summarize
from lps.wording import counted

SETTING, DETAILS = "LPS_NOTIFY", "LPS_NOTIFY_DETAILS"
RECORD = "messages.json"  # in a run's folder: what was told of it, and when
SENT = ".messages.json"  # in the folder of the runs: when messages were sent
MOST, PERIOD_S = 10, 3600.0
_ENDS = {"finished": "finished", "failed": "failed", "crashed": "failed"}


@dataclass(frozen=True)
class Message:
    """key: what it is about, told once of a run; private: what is added where details are asked for."""

    key: str
    title: str
    body: str
    private: str = ""


def addresses() -> list[str]:
    return os.environ.get(SETTING, "").split()


def kinds() -> list[str]:
    """The scheme of every address: what may be shown, since the rest can hold a password."""
    return [_kind(address) for address in addresses()]


def _kind(address: str) -> str:
    scheme, mark, _ = address.partition("://")
    return shown(scheme) if mark else "a text without ://"


def receivers():
    """All of them as one `apprise.Apprise`; raises `UserError` for an address that means nothing."""
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
    """A notification of the desktop, by the program that Linux or macOS has for it."""
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
    """What is to be told of a run as it stands now, told already or not."""
    state, run_words = run.state(), _describe_run(run)
    private = f"{titles.run_title(run)}, {run.folder}"
    if state.name in _ENDS:
        reason = f"; {state.reason}" if state.reason else ""
        kind = state.kind if state.kind in ADVICE else "unknown"  # any other text may tell of a person's folders
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


def tell_of(run: Run) -> int:
    """Send what is due and was not told before; gives the number of messages that arrived."""
    with folder_lock(run.folder):
        sent_record = run.read_json(RECORD)
        fresh = [message for message in _due_messages(run) if message.key not in sent_record]
        if fresh:
            write_json(run.folder / RECORD, sent_record | {message.key: time.time() for message in fresh})
    return sum(send_message(run.root, message) for message in fresh)


# ---------------------------------------------------------------------------------------------------- sending


def send_message(root: Path, message: Message) -> bool:
    """Send it to everybody, unless too many were sent; whether it arrived everywhere. Raises `UserError`."""
    everybody = receivers()
    if not len(everybody):
        return False
    num_held = _claim(root)
    if num_held is None:
        return False
    lines = [message.body]
    if os.environ.get(DETAILS) == "1" and message.private:
        lines.append(message.private)
    if num_held:
        were = "was" if num_held == 1 else "were"
        lines.append(
            f"{counted(num_held, 'message')} before this one {were} not sent, because at most {MOST} are sent per hour"
        )
    return bool(everybody.notify(title=f"LPS Studio: {message.title}", body="\n".join(lines)))


def _claim(root: Path) -> int | None:
    """A place among the messages of this hour, as the number that was held back before; None if there is none."""
    now, file = time.time(), root / SENT
    with folder_lock(root):
        record = Run(root).read_json(SENT)
        times, num_held = record.get("sent"), record.get("held")
        times = times if isinstance(times, list) else []
        recent_times = [at for at in times if isinstance(at, (int, float)) and now - PERIOD_S < at <= now]
        num_held = max(num_held, 0) if type(num_held) is int else 0
        is_free = len(recent_times) < MOST
        write_json(
            file, {"sent": [*recent_times, now] if is_free else recent_times, "held": 0 if is_free else num_held + 1}
        )
    return num_held if is_free else None


if __name__ == "__main__":
    tell_of(Run(Path(sys.argv[1])))
