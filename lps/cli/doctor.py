"""Check this installation, and test where notifications are sent: `doctor`, `notify`."""

from dataclasses import asdict

from lps.cli._parser import Commands, print_json, print_note
from lps.errors import UserError
from lps.wording import counted

_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}


def add(commands: Commands) -> None:
    commands.add("doctor", doctor, "check this installation and say how to fix problems", as_json=True)
    notify = commands.add("notify", _notify, "where notifications about runs are sent (LPS_NOTIFY)")
    notify.add_argument("--test", action="store_true", help="send a test message")


def doctor(options) -> int:
    """Print the findings; return 1 if there is a problem."""
    from lps.doctor import checks, diagnostic

    findings = []
    for finding in checks.examine(diagnostic.Machine(options.runs)):
        findings.append(finding)
        if not options.json:
            print(f"{_MARKS[finding.level]} {finding.about}: {finding.says}", flush=True)
            if finding.mend:
                print(f"        -> {finding.mend}", flush=True)
    problems = sum(finding.level == diagnostic.PROBLEM for finding in findings)
    if options.json:
        print_json({"problems": problems, "findings": [asdict(finding) for finding in findings]})
    elif problems:
        print(f"\n{counted(problems, 'problem')}")
    else:
        notes = sum(finding.level == diagnostic.NOTE for finding in findings)
        notes_in_words = f", {counted(notes, 'note')}" if notes else ""
        print(f"\nno problems{notes_in_words}")
    return 1 if problems else 0


def _notify(options) -> None:
    from lps.interop import notifications

    notifier = notifications.receivers()
    kinds = ", ".join(notifications.kinds())
    if not kinds:
        print_note(
            f'no channel is set; set for example {notifications.SETTING}="jsons://example.org/hook desktop://" '
            "before you start the dashboard"
        )
    elif not options.test:
        print_note(kinds)
    elif notifier.notify(title="LPS Studio: a test", body="Notifications about runs arrive here."):
        print_note(f"sent to: {kinds}")
    else:
        raise UserError(notifications.SETTING, f"not all of {kinds} could be reached")
