"""Runs with hostile texts: names, notes, tags, class names, log lines, reasons, clusters.

A page or file that shows them must fetch nothing, run nothing and link to nothing.
"""

from pathlib import Path

import numpy as np

from lps.analysis.naming import record_steps
from lps.data import sources
from lps.files.atomic import write_json
from lps.store.runs import Run
from tests.sample_runs import RunWriter

STRANGER = "evil.example"  # no text below asks for anything but this host
URL = f"http://{STRANGER}"
TEXTS = (
    f"<img src={URL}/a.png onerror=window.canary=1>",
    "<script>window.canary=1</script>",
    f"![x]({URL}/b.png)",
    f"[click]({URL}/c)",
    f"<a href='javascript:window.canary=1'>x</a> {URL}/d",
    f"$\\href{{{URL}/e}}{{x}}$ \\input{{/etc/passwd}}",
    ":material/home: :red[red] :smile:",
    '=HYPERLINK("http://evil.example/f","x")',
    "\u202eevil\u2066 \u200b\u0000name",
    f"<svg onload=window.canary=1><image href={URL}/g.png>",
    f"**bold** # head\n- item\n\n| a | b |\n{URL}/h www.{STRANGER}/i me@{STRANGER}",
    f'"><style>@import url({URL}/j.css)</style>',
    "{{7*7}} ${7*7} %(x)s {0} %n",
    "\x1b]0;title\x07\x1b[31mred",
)
LINES = "\n".join(text.replace("\n", " ") for text in TEXTS)


class HostileWriter(RunWriter):
    """Write a run on digits whose class names are hostile."""

    def __init__(self, root: Path, data: Path, **options):
        settings = {"dataset": "arrays", "dataset.path": str(data), "network.name": "digits_resnet", "views": "digits"}
        super().__init__(root, settings=settings | options.pop("settings", {}), **options)
        self.images = sources.images_of(self.config)


def make_data(path: Path) -> Path:
    """Write the digits with hostile class names, as a file for the data set `arrays`."""
    digits = sources.load("digits")
    names = np.array([TEXTS[k].replace("\0", " ") for k in range(digits.num_classes)])
    np.savez(path, x_train=digits.pixels, y_train=digits.labels, class_names=names)
    return path


def make_runs(root: Path, data: Path) -> list[Run]:
    """Make one run for each way to end; every text that users or programs can set is hostile."""
    runs = []
    for number, state in enumerate(("finished", "failed", "stopped", "finished", "crashed", "queued")):
        writer = HostileWriter(root, data, seed=number, name=TEXTS[number], log=LINES + "\n")
        writer.begin(state, 0 if state == "queued" else 6)
        writer.end(state)
        run = writer.run
        run.write_meta(notes="\n".join(TEXTS), tags=[f"sweep:{TEXTS[0]}", f"search:{TEXTS[2]}", *TEXTS[:4]])
        if state == "failed":
            ended = run.read_json("exit.json")
            write_json(run.folder / "exit.json", ended | {"kind": "config", "reason": " ".join(TEXTS[:6])})
        if state == "queued":
            (run.folder / "want.json").unlink()  # nothing of it shall start
        if state == "finished":
            record_steps(run, 6, [{"do": "name", "id": k, "name": TEXTS[k + number]} for k in range(5)])
        runs.append(run)
    return runs
