"""How many small faults the tests of a room find: `python -m tests.mutants --out FILE`.

A mutant is one changed operator, constant, condition, call or returned value in `lps/ROOM`. The seed decides which ones
are made. Each is written into a copy of the repository. A forked process that has the libraries imported runs the
tests of tests/ROOM that call the changed function, the fastest first, until one fails. The results are kept in FILE, so
that a run that was ended continues where it was. A mutant is named by its text: `--like FILE` makes the same ones in
another version of the program. The test that found a mutant in that FILE comes first, for it likely does again.
"""

import argparse
import ast
import copy
import functools
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = "scores store scheduler analysis settings methods data files".split()
LIBRARIES = """torch torchvision numpy scipy sklearn.cluster pandas PIL.Image plotly.graph_objects streamlit.testing.v1
hypothesis"""
COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div}
SECONDS = itertools.count(2, 2)
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    path: str  # of the module, relative to the repository
    function: str  # its qualified name, "" at the top level of the module
    change: str  # what is changed into what
    place: int  # the how manieth of the same change in the function

    @property
    def name(self) -> str:
        return f"{self.path}:{self.function}:{self.change}:{self.place}"


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may replace `node`."""
    new = copy.copy(node)
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARED:
            new.ops = [COMPARED[type(operator)]()]
        case ast.BinOp(op=operator) if type(operator) in COMPUTED and not isinstance(node.left, ast.JoinedStr):
            new.op = COMPUTED[type(operator)]()
        case ast.BoolOp():
            new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.Not()):
            new = node.operand
        case ast.Constant(value=bool()):
            new.value = not node.value
        case ast.Constant(value=int() | float()):
            new.value = node.value + 1
        case ast.If() | ast.IfExp() | ast.While() if not isinstance(node.test, ast.Constant | ast.Compare):
            new.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Call(func=ast.Name(id=called)) if called in CALLED:
            new.func = ast.Name(CALLED[called])
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            new = ast.Pass()
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            new.value = ast.Constant(None)
        case ast.Break():
            new = ast.Continue()
        case ast.Continue():
            new = ast.Break()
        case _:
            return
    yield new


def mutants(path: Path, root: Path, wanted: set[str] = frozenset()) -> Iterator[tuple[Mutant, str]]:
    """Return all mutants of a module, and the source of those that are `wanted` (else "")."""
    tree = ast.parse(path.read_text())
    same = Counter()

    def walk(parent: ast.AST, function: str) -> Iterator[tuple[Mutant, str]]:
        for field, value in ast.iter_fields(parent):
            if field in ("annotation", "returns", "decorator_list", "type_comment", "type_params"):
                continue
            several = isinstance(value, list)
            for place, node in enumerate(value if several else [value]):
                if not isinstance(node, ast.AST) or isinstance(
                    node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom
                ):
                    continue
                within = function
                if isinstance(node, ast.FunctionDef):
                    within = f"{function}.<locals>.{node.name}" if function.rpartition(".")[2] else node.name
                for new in changes(node):
                    change = f"{text(node)} -> {text(new)}"
                    same[function, change] += 1
                    mutant = Mutant(str(path.relative_to(root)), function, change, same[function, change])
                    put(parent, field, place if several else None, new)
                    yield mutant, ast.unparse(ast.fix_missing_locations(tree)) if mutant.name in wanted else ""
                    put(parent, field, place if several else None, node)
                if isinstance(node, ast.ClassDef):
                    yield from walk_class(node, function)
                else:
                    yield from walk(node, within)

    def text(node: ast.AST) -> str:
        return "if " + ast.unparse(node.test) if isinstance(node, ast.If | ast.While) else ast.unparse(node)

    def walk_class(node: ast.ClassDef, function: str) -> Iterator[tuple[Mutant, str]]:
        before = f"{function}.<locals>." if function else ""
        for inner in node.body:
            name = f"{before}{node.name}.{inner.name}" if isinstance(inner, ast.FunctionDef) else function
            yield from walk(inner, name)

    def put(parent: ast.AST, field: str, place: int | None, node: ast.AST) -> None:
        if place is None:
            setattr(parent, field, node)
        else:
            getattr(parent, field)[place] = node

    yield from walk(tree, "")


class Calls:
    """Plugin of pytest that records which functions of `lps` each test calls, and its processor seconds."""

    def __init__(self, root: Path, file: Path):
        self.root, self.file, self.known = f"{root / 'lps'}{os.sep}", file, {}
        self.tests, self.now = {}, set()

    def trace(self, frame, event, argument) -> None:
        code = frame.f_code
        if code not in self.known:
            path = code.co_filename
            self.known[code] = (path[len(self.root) - 4 :], code.co_qualname) if path.startswith(self.root) else None
        if self.known[code]:
            self.now.add(self.known[code])

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        self.now, began = set(), os.times()
        sys.settrace(self.trace)
        yield
        sys.settrace(None)
        self.tests[item.nodeid] = {"seconds": round(sum(os.times()[:4]) - sum(began[:4]), 3), "calls": sorted(self.now)}

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.add(report.nodeid)

    failed: set[str] = set()

    def pytest_sessionfinish(self):
        for test in self.failed:
            self.tests.pop(test, None)
        self.file.write_text(json.dumps(self.tests))


class Chosen:
    """Plugin of pytest that keeps these tests of the collected ones, in this order."""

    def __init__(self, tests: list[str]):
        self.order = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items):
        items[:] = sorted(
            (item for item in items if item.nodeid in self.order), key=lambda item: self.order[item.nodeid]
        )


def in_a_fork(root: Path, arguments: list[str], plugin: object, log: Path, processor: float, wall: float) -> int | None:
    """Run pytest in a fork; return its exit code, None if it took too long or was killed."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    child = os.fork()
    if not child:
        os.setsid()
        os.chdir(root)
        os.environ["LPS_MUTANT"] = mark
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        if processor:
            resource.setrlimit(resource.RLIMIT_CPU, (int(processor), int(processor)))
        sys.path[0] = str(root)
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        usual = "-q -p no:xdist -p no:cacheprovider --hypothesis-seed=28 --tb=line".split()
        code = pytest.main([*usual, "-m", "not browser and not slurm", *arguments], plugins=[plugin])
        os._exit(int(code))
    end = time.monotonic() + wall
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.05)
    if not ended[0]:
        os.kill(child, signal.SIGKILL)
        ended = os.waitpid(child, 0)
    leave_nothing(mark)
    return os.waitstatus_to_exitcode(ended[1]) if os.WIFEXITED(ended[1]) else None


def leave_nothing(mark: str) -> None:
    """End the processes that the tests of a mutant left behind."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"LPS_MUTANT={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
        except (OSError, ProcessLookupError):
            continue


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="where the results are kept")
    parser.add_argument("--seed", type=int, default=28)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--rooms", nargs="+", default=ROOMS, choices=ROOMS, help="of the mutants, those of these rooms")
    parser.add_argument(
        "--like", type=Path, help="the results of a run before: the same mutants, where they are still there"
    )
    parser.add_argument(
        "--most", type=float, default=60, help="processor seconds that the tests of one mutant may take"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lps-mutants-") as folder:
        hunt(options, Path(folder))
    return 0


def hunt(options: argparse.Namespace, folder: Path) -> None:
    root = folder / "copy"
    for name in subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")[:-1]:
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in LIBRARIES.split():
        __import__(name)
    modules = [path for room in ROOMS for path in sorted((root / "lps" / room).rglob("*.py"))]
    everything = [mutant.name for path in modules for mutant, _ in mutants(path, root)]
    before = json.loads(options.like.read_text())["mutants"] if options.like else {}
    chosen = list(before) or random.Random(options.seed).sample(everything, options.count)
    chosen = [name for name in chosen if name.split("/")[1] in options.rooms]
    finders = passing({name: finder_of(before[name]) for name in chosen if name in before}, root)

    sources = {
        mutant.name: (mutant, source)
        for path in modules
        for mutant, source in mutants(path, root, set(chosen))
        if source
    }
    results = {"commit": "", "all": len(everything), "mutants": {}}
    if options.out.exists():
        results = json.loads(options.out.read_text())
    results["commit"] = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    tests = functools.cache(lambda room: calls_of(room, root, options.out))
    for name, is_by_finder in [*((name, True) for name in finders), *((name, False) for name in chosen)]:
        if name in results["mutants"]:
            continue
        mutant, source = sources.get(name, (None, ""))
        began, result = time.monotonic(), {"end": "gone"}
        if mutant and is_by_finder:
            alone = {finders[name]: {"seconds": options.most, "calls": [(mutant.path, mutant.function)]}}
            result = judge(mutant, source, alone, root, options.most)
        elif mutant:
            result = judge(mutant, source, tests(mutant.path.split("/")[1]), root, options.most)
        if is_by_finder and result["end"] == "survived":
            continue
        results["mutants"][name] = result | {"seconds": round(time.monotonic() - began, 1)}
        draft = options.out.with_suffix(".draft")
        draft.write_text(json.dumps(results, indent=1))
        draft.replace(options.out)
        print(f"{len(results['mutants'])}/{len(chosen)} {result['end']} {name}", flush=True)
    print(Counter(result["end"] for result in results["mutants"].values()))


def finder_of(result: dict) -> str:
    """Return the test that found a mutant; "" if none did."""
    return re.sub(r"^(FAILED|ERROR) | - .*", "", result["by"]) if "::" in result.get("by", "") else ""


def passing(finders: dict[str, str], root: Path) -> dict[str, str]:
    """Return the finder by mutant, if that test still exists and passes without a mutant."""
    log, tests = root.parent / "log", sorted({test for test in finders.values() if test})
    files = sorted({file for test in tests if (root / (file := test.partition("::")[0])).is_file()})
    if files:
        in_a_fork(root, ["-rp", f"--basetemp={root.parent / 'tests'}", *files], Chosen(tests), log, 0, 3600)
    passed = set(re.findall(r"^PASSED (.*)$", log.read_text(errors="replace"), re.MULTILINE)) if files else set()
    return {name: test for name, test in finders.items() if test in passed}


def calls_of(room: str, root: Path, out: Path) -> dict[str, dict]:
    """Return by test of a room its seconds and the functions that it calls; they are stored beside the results."""
    kept = out.with_name(f"{out.stem}.{room}.calls.json")
    if not kept.exists():
        arguments = [f"tests/{room}", f"--basetemp={root.parent / 'tests'}"]
        in_a_fork(root, arguments, Calls(root, kept), kept.with_suffix(".log"), 0, 3600)
    return json.loads(kept.read_text())


def judge(mutant: Mutant, source: str, tests: dict[str, dict], root: Path, most: float) -> dict:
    """Return whether a test of the room fails with the mutant in place."""
    by_function = defaultdict(set)
    for test, seen in tests.items():
        for path, function in seen["calls"]:
            by_function[path, function].add(test)
            by_function[path, ""].add(test)
    wanted = by_function[mutant.path, mutant.function] if mutant.function else by_function[mutant.path, ""]
    if not wanted:
        return {"end": "not called"}
    ordered = sorted(wanted, key=lambda test: (tests[test]["seconds"], test))
    seconds = [tests[test]["seconds"] for test in ordered]
    number = max((n for n in range(1, len(ordered) + 1) if sum(seconds[:n]) <= most), default=1)
    ordered, seconds = ordered[:number], sum(seconds[:number])
    path = root / mutant.path
    whole = path.read_text()
    log = root.parent / "log"
    try:
        path.write_text(source)
        # What Python compiled of a module is known by its size and its second.
        os.utime(path, (time.time() + next(SECONDS),) * 2)
        files = sorted({test.partition("::")[0] for test in ordered})
        arguments = ["-x", f"--basetemp={root.parent / 'tests'}", *files]
        code = in_a_fork(root, arguments, Chosen(ordered), log, 60 + 5 * seconds, 300 + 20 * seconds)
    finally:
        path.write_text(whole)
        os.utime(path, (time.time() + next(SECONDS),) * 2)
    if code == 0:
        return {"end": "survived", "tests": len(ordered), "of": len(wanted)}
    if code is None:
        return {"end": "found", "by": "it takes too long"}
    last = [line for line in log.read_text(errors="replace").splitlines() if line.startswith(("FAILED", "ERROR"))]
    return {"end": "found", "by": last[0] if last else f"exit code {code}"}


if __name__ == "__main__":
    sys.exit(main())
