"""`doctor`: is everything as it should be here, and if not, how is it mended?"""

from dataclasses import asdict

from lps.commands import Commands, print_json

MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}


def add(commands: Commands) -> None:
    commands.add("doctor", doctor, "look for what is wrong here, and say how to mend it", as_json=True)


def doctor(options) -> int:
    """Exit code 1 where there is a problem."""
    from lps import doctor as examination

    findings = []
    for finding in examination.examine(examination.Machine(options.runs)):
        findings.append(finding)
        if not options.json:
            print(f"{MARKS[finding.level]} {finding.about}: {finding.says}", flush=True)
            if finding.mend:
                print(f"        -> {finding.mend}", flush=True)
    problems = sum(finding.level == examination.PROBLEM for finding in findings)
    if options.json:
        print_json({"problems": problems, "findings": [asdict(finding) for finding in findings]})
    elif problems:
        print(f"\n{problems} problem{'s' if problems > 1 else ''}")
    else:
        notes = sum(finding.level == examination.NOTE for finding in findings)
        print(f"\nno problems{f', {notes} things worth knowing' if notes > 1 else ''}")
    return 1 if problems else 0
