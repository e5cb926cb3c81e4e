"""python -m benchmarks: measure training costs on this machine, in one run with the structure of the original code."""

import argparse
import sys

import torch

from benchmarks.clocks import clock_of
from benchmarks.report import as_json, section
from benchmarks.suite import SECTIONS, Options
from lps.errors import UserError
from lps.settings import catalog


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small batches and few rounds: minutes, rough numbers")
    parser.add_argument("--only", metavar="NAME", action="append", choices=SECTIONS, help=f"{', '.join(SECTIONS)}")
    parser.add_argument("--method", metavar="NAME", action="append", choices=catalog.method_names(), default=[])
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--batch", type=int, help="images of a step of CIFAR's size")
    parser.add_argument("--rounds", type=int, help="rounds of everything; the best one counts")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of a step; several blur processor time")
    parser.add_argument("--pictures", metavar="FILE", help=".npz for the memory instead of random pictures")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    options = Options(
        arguments.quick,
        tuple(arguments.method),
        arguments.device,
        arguments.batch,
        arguments.rounds,
        arguments.pictures,
    )
    try:
        report(options, arguments.only or list(SECTIONS), arguments.json)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def report(options: Options, names: list[str], json: bool) -> None:
    clock = f"Clock: {clock_of(options.target)} time where nothing else is said. Best of n rounds taken in turn."
    found = {}
    print(clock, file=sys.stderr if json else sys.stdout, flush=True)
    for name in names:
        title, note, measure = SECTIONS[name]
        found[name] = []
        for row in measure(options):
            found[name].append(row)
            print(f"{name}: {len(found[name])} done", file=sys.stderr, flush=True)  # a row can take minutes
        if not json:
            print(section(title, note, found[name]), flush=True)
    if json:
        print(as_json(found))


if __name__ == "__main__":
    sys.exit(main())
