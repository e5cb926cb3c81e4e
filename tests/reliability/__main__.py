"""The trials at full scale: `python -m tests.reliability COMMAND`; exit code 1 where one fails.

operations   a fault at every operation of a training (--every N --offset K: some of them; --kinds: some kinds)
mutants      broken variants of the store: each must be found out
trainings    real trainings killed at random moments until they come through (--kills N --seed S)
trainers     the trainers of real runs killed at random moments, through the real launcher (--kills N --seed S)
processes    trainers, runners and servers of real runs killed at random moments (--kills N --seed S)
corruption   bits flipped in the newest checkpoint, and its end cut off (--flips N --cuts N --seed S)
disk         trainings on a disk of some megabytes that is full
launches     two servers launch the same runs and are killed meanwhile (--runs N --kills N --seed S)
faults       faults of processes, and when what is shown is right (--trials N each; --only NAME...)
stops        runs and real trainings stopped at random moments (--runs N --trainings N --seed S)
folders      a list of many runs, at first and again (--runs N)
watch        all that may happen in a folder that predict --watch looks at (--folders N --looks N)
cases        all cases of the tests of which each takes a share in the suite (tests/shares.py)
addresses    long, nested and strange texts in the addresses of all pages (--every N --seed S)
events       a run of very many records, at first and when one more is there (--count N)
output       much console output (--megabytes N)
sessions     many browser sessions on one live run (--visitors N --seconds N)
soak         runs, stops and random faults without end beside the app (--seconds N --every MILLISECONDS --seed S
             --servers N: apps on one folder of runs)
browsers     many Chromium sessions that draw pages at the same time (--visitors N --pages N each)
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for act, numbers in (
        (operations, {"every": 1, "offset": 0}),
        (mutants, {}),
        (trainings, {"kills": 200, "seed": 0}),
        (trainers, {"kills": 100, "seed": 0}),
        (processes, {"kills": 200, "seed": 0}),
        (corruption, {"flips": 400, "cuts": 20, "seed": 0}),
        (disk, {}),
        (launches, {"runs": 1000, "kills": 30, "seed": 0}),
        (faults, {"trials": 100}),
        (stops, {"runs": 100, "trainings": 100, "seed": 0}),
        (folders, {"runs": 10_000}),
        (watch, {"folders": 10, "looks": 100}),
        (cases, {}),
        (addresses, {"every": 60, "seed": 0}),
        (events, {"count": 1_000_000}),
        (output, {"megabytes": 1000}),
        (sessions, {"visitors": 20, "seconds": 120}),
        (soak, {"seconds": 600, "every": 2000, "seed": 0, "servers": 1}),
        (browsers, {"visitors": 20, "pages": 4}),
    ):
        sub = commands.add_parser(act.__name__)
        sub.set_defaults(act=act)
        for name, usual in numbers.items():
            sub.add_argument(f"--{name}", type=int, default=usual)
        if act is operations:
            sub.add_argument("--kinds", nargs="+")
        if act is faults:
            sub.add_argument("--only", nargs="+")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lps-reliability-") as folder:
        failed = options.act(options, Path(folder))
    print(f"{failed} failed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def operations(options, folder: Path) -> int:
    from tests.reliability.faults import KINDS
    from tests.reliability.operations import sweep
    from tests.reliability.trials import Workshop

    workshop = Workshop(folder)
    print(f"{len(workshop.operations)} operations in a training", flush=True)
    tried = sweep(workshop, options.every, options.offset, options.kinds or KINDS)
    return count_kinds(((kind, f"{kind} at {number} ({name})", wrong) for kind, number, name, wrong in tried), "hold")


def count_kinds(tried: Iterable[tuple[str, str, object]], verb: str) -> int:
    """Tell what goes wrong, then how many of each kind hold; gives how many do not. tried: kind, words, fault."""
    trials, failed = Counter(), Counter()
    for kind, words, wrong in tried:
        trials[kind] += 1
        if wrong:
            failed[kind] += 1
            print(f"{words}: {wrong}", flush=True)
    for kind, count in trials.items():
        print(f"{kind}: {count - failed[kind]} of {count} {verb}")
    return failed.total()


def mutants(options, folder: Path) -> int:
    from tests.reliability.mutants import MUTANTS, hunt
    from tests.reliability.trials import Workshop

    workshop, survived = Workshop(folder), 0
    for mutant in MUTANTS:
        found, tried = [], 0
        for _, found in hunt(workshop, mutant):
            tried += 1
            if found:
                break
        survived += not found
        print(f"{mutant.break_it.__name__}: {found[0][:200] if found else 'NOT FOUND'} ({tried} trials)", flush=True)
    return survived


def trainings(options, folder: Path) -> int:
    from tests.reliability.trials import Workshop, kill_and_resume

    workshop, draws = Workshop(folder), random.Random(options.seed)
    runs = killed = failed = 0
    while killed < options.kills:
        count, wrong = kill_and_resume(workshop, draws)
        runs, killed, failed = runs + 1, killed + count, failed + bool(wrong)
        if wrong:
            print(f"run {runs}, killed {count} times: {wrong}", flush=True)
    print(f"{killed} kills over {runs} runs: {runs - failed} runs hold")
    return failed


def trainers(options, folder: Path) -> int:
    from tests.reliability.trainer_kills import kill_again, unbroken

    reference, seconds = unbroken(folder / "unbroken")
    print(f"unbroken: {seconds[0]:.1f} s to the first record, {seconds[1]:.1f} s from there to the end", flush=True)
    draws, phases, wrong, runs = random.Random(options.seed), Counter(), [], 0
    while phases.total() < options.kills:
        left = options.kills - phases.total()
        trial = kill_again(folder / f"runs-{runs}", min(left, 10), draws, seconds, reference)
        runs += 1
        phases.update(trial.phases)
        wrong += [f"run {runs}: {text}" for text in trial.wrong]
        print(f"run {runs}: {len(trial.phases)} kills, {len(trial.wrong)} wrong", flush=True)
    return tell(phases + Counter(runs=runs), wrong)


def processes(options, folder: Path) -> int:
    from tests.reliability.processes import kill_and_count, leftovers

    done, wrong = kill_and_count(folder, options.kills, options.seed)
    return tell(done, wrong + leftovers(folder))


def tell(done: Mapping[str, int], wrong: Sequence[str]) -> int:
    """Tell how much of what was done, and what went wrong; gives how much did."""
    print(", ".join(f"{name} {count}" for name, count in sorted(done.items())))
    print(*wrong, sep="\n")
    return len(wrong)


def corruption(options, folder: Path) -> int:
    from tests.reliability.corruption import damages
    from tests.reliability.trials import Workshop

    found = damages(Workshop(folder), options.flips, options.cuts, options.seed)
    return count_kinds(((kind, kind, wrong) for kind, wrong in found), "noticed")


def disk(options, folder: Path) -> int:
    from tests.reliability.small_disk import enter, reason_against

    if reason := reason_against(folder):
        print(f"no disk can be mounted here: {reason}")
        return 1
    said = subprocess.run(enter(folder, "small_disk"), capture_output=True, text=True)
    print(said.stdout.strip() or said.stderr)
    return len(json.loads(said.stdout)["wrong"]) if said.stdout else 1


def launches(options, folder: Path) -> int:
    from tests.reliability.launches import launch_and_kill

    done, wrong = launch_and_kill(folder, options.runs, options.kills, options.seed)
    return tell(done, wrong)


def faults(options, folder: Path) -> int:
    from tests.reliability.process_faults import FAULTS, suffer

    failed = 0
    for fault in FAULTS:
        if options.only and fault.__name__ not in options.only:
            continue
        scenes = [suffer(folder / f"{fault.__name__}-{number}", fault) for number in range(options.trials)]
        wrong, seconds = (
            [text for scene in scenes for text in scene.wrong],
            [max(s.seconds) for s in scenes if s.seconds],
        )
        late = sum(longest > 2 for longest in seconds)
        failed += len(wrong) + late
        print(f"{fault.__name__}: {len(scenes)} trials, {len(wrong)} wrong, {late} later than 2 s, ", end="")
        print(f"median {median(seconds):.3f} s, longest {max(seconds):.3f} s", *wrong[:5], sep="\n    ", flush=True)
    return failed


def stops(options, folder: Path) -> int:
    from tests.reliability.stops import stop_at_random, stop_training
    from tests.reliability.trials import Workshop

    draws, wrong = random.Random(options.seed), []
    stopped = [stop_at_random(folder / f"run-{number}", draws) for number in range(options.runs)]
    if stopped:
        print(f"{len(stopped)} runs, the longest stop took {max(seconds for seconds, _ in stopped):.3f} s", flush=True)
        wrong += [text for _, found in stopped for text in found]
    workshop = Workshop(folder / "trainings") if options.trainings else None
    tried = [stop_training(workshop, draws) for _ in range(options.trainings)]
    wrong += [text for _, found in tried for text in found]
    print(
        f"{len(tried)} trainings, {sum(is_stopped for is_stopped, _ in tried)} of them in their midst", *wrong, sep="\n"
    )
    return len(wrong)


def folders(options, folder: Path) -> int:
    from lps.analysis import run_index
    from lps.store.run_folders import list_runs
    from tests.reliability.loads import fill

    fill(folder / "runs", options.runs)
    counts = []
    for when in ("at first", "again"):
        seconds, found = timed(lambda: [run_index.read_run_row(run) for run in list_runs(folder / "runs")])
        counts.append(sum(entry.state.name == "finished" for entry in found))
        print(f"page Runs, {len(found)} runs {when}: {seconds}", flush=True)
    command = [sys.executable, "-m", "lps", "list", "--json", "--runs", str(folder / "runs")]
    began = time.monotonic()
    listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = f"{time.monotonic() - began:.2f} s, {used.ru_utime + used.ru_stime:.2f} s of a processor"
    print(f"list --json, {len(listed)} runs: {seconds}")
    return sum(count != options.runs for count in [*counts, len(listed)])


def timed(act) -> tuple[str, object]:
    """How long it took, in words, and what it gave."""
    began, used = time.monotonic(), time.process_time()
    result = act()
    return f"{time.monotonic() - began:.3f} s, {time.process_time() - used:.3f} s of a processor", result


def watch(options, folder: Path) -> int:
    from tests.inference.test_prediction import KINDS
    from tests.reliability.watched_folder import trouble
    from tests.short_runs import finished_run

    run, done, wrong = finished_run(folder / "runs", **KINDS["live"]), Counter(), []
    for seed in range(options.folders):
        (folder / str(seed)).mkdir()
        place = folder / str(seed)
        counts, found = trouble(run, place / "new", place / "labels.csv", options.looks, random.Random(seed))
        done, wrong = done + counts, wrong + [f"folder {seed}: {text}" for text in found]
    return tell(done, wrong)


def cases(options, folder: Path) -> int:
    sources = {str(path): path.read_text() for path in Path("tests").rglob("test_*.py")}
    files = [path for path, text in sources.items() if "tests.shares import" in text or "mark.turn(" in text]
    words = [sys.executable, "-m", "pytest", *files]
    return int(subprocess.call(words, env=os.environ | {"LPS_TRIALS": "all"}) != 0)


def addresses(options, folder: Path) -> int:
    from lps.scheduler import launcher
    from tests.reliability.addresses import attack
    from tests.visiting import PAGES

    os.environ |= {"LPS_RUNS": str(folder / "runs"), "LPS_CACHE": str(folder / "cache")}
    launcher.dispatch = lambda *given: []
    tried = list(attack(folder / "runs", options.seed, PAGES, options.every))
    wrong = [f"{what}: {found}" for what, _, found in tried if found]
    what, seconds, _ = max(tried, key=lambda one: one[1])
    print(f"the slowest took {seconds:.1f} s ({what})")
    return tell({"visits": len(tried), "pages": len(PAGES)}, wrong)


def events(options, folder: Path) -> int:
    from lps.charts.event_log import EventLog
    from lps.store.summary import summarize
    from tests import sample_runs
    from tests.reliability.loads import write_events

    run = sample_runs.make_run(folder / "runs", "running", written=0)
    size, log, last = write_events(run, options.count), EventLog(run.events), options.count // 2
    for when in ("at first", "again", "two records more"):
        seconds, found = timed(lambda: summarize(run))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"summary, {when}: {seconds}, at most {peak} MiB of memory", flush=True)
        if when == "again":
            write_events(run, 2, last := last + 1)
    wrong = found["epochs"] != last
    seconds, past = timed(log.read_history)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{options.count} records, {size / 1e6:.0f} MB: {seconds}, at most {peak} MiB of memory", flush=True)
    wrong += past.last_epoch != last
    for epoch in range(last + 1, last + 6):
        write_events(run, 2, epoch)
        seconds, past = timed(log.read_history)
        wrong += past.last_epoch != epoch
        print(f"two records more: {seconds}")
    return wrong


def output(options, folder: Path) -> int:
    from tests.reliability.loads import print_much

    kept, seconds = print_much(folder / "log.txt", options.megabytes * 1_000_000)
    text = (folder / "log.txt").read_bytes()
    print(f"{options.megabytes} MB printed, {kept / 1e6:.1f} MB kept, {seconds:.1f} s")
    return (kept > 12e6) + (not text.startswith(b"the beginning\n")) + (not text.endswith(b"the end\n"))


def sessions(options, folder: Path) -> int:
    from tests.reliability.soak import grown
    from tests.reliability.visits import watch_together

    usages, visits, wrong = watch_together(folder, options.visitors, options.seconds)
    for held in usages[:: max(1, len(usages) // 8)]:
        print(f"{held.memory >> 20} MiB, {held.descriptors} descriptors, {held.seconds:.1f} s of a processor")
    wrong += grown(usages)
    print(f"{visits} pages and parts of them drawn", *wrong[:20], sep="\n")
    return len(wrong)


def soak(options, folder: Path) -> int:
    from tests.reliability.soak import Soak

    trial = Soak(folder / "runs", options.seed)
    wrong = trial.carry_out(options.seconds, options.every / 1000, folder / "app.txt", options.servers)
    print(", ".join(f"{name} {count}" for name, count in sorted(trial.done.items())))
    for _, held in trial.usages[:: max(1, len(trial.usages) // 8)]:
        print(
            f"{held.memory >> 20} MiB, {held.descriptors} descriptors, {held.threads} threads, {held.zombies} zombies"
        )
    print(*wrong[:20], sep="\n")
    return len(wrong)


def browsers(options, folder: Path) -> int:
    from tests.reliability.browsers import draw_at_once

    seconds, held, wrong = draw_at_once(folder, options.visitors, options.pages)
    print(f"a page took {median(seconds):.1f} s (median), at most {max(seconds):.1f} s")
    print(f"the server: {held.memory >> 20} MiB, {held.descriptors} descriptors, {held.seconds:.0f} s of a processor")
    return tell({"sessions": options.visitors, "pages drawn": len(seconds)}, wrong)


if __name__ == "__main__":
    sys.exit(main())
