"""Advice on failures: what happened, the likely cause, what to do, and the button that does it.

One table for every kind that a runner records (`lps.scheduler.runner.classify`,
`lps.training.end_reason.explain_failure`), used by pages and command line alike. Standard library only.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lps.settings import cli_args
from lps.settings.config import Config

RESUME, COPY = "resume", "copy"
MIN_BATCH = 8  # rows; a batch is not halved below


@dataclass(frozen=True)
class Advice:
    """title: what happened; cause: the likely one; remedy: what to do; step: `RESUME` or `COPY`; button: its label.

    If the recorded reason already names the cause (killed), `cause` describes the effect on the run instead.

    changes: settings that differ in a copy of the run, by key.
    """

    title: str
    cause: str
    remedy: str
    step: str
    button: str
    changes: Callable[[Config], dict] = lambda config: {}


def _half_batch(config: Config) -> dict:
    half = config.batch_size // 2
    return {"batch_size": half} if half >= MIN_BATCH else {}


def _tenth_of_lr(config: Config) -> dict:
    lr = config.flat().get("lr")
    return {"lr": float(f"{lr / 10:.3g}")} if isinstance(lr, float) and lr > 0 else {}


ADVICE = {
    "config": Advice(
        "A setting does not work",
        "The settings do not fit each other, the data set or this machine. This was only detected when the run "
        "started.",
        "Launch a copy and change the setting that the reason names.",
        COPY,
        "Copy the run and fix the setting",
    ),
    "data": Advice(
        "The data cannot be used",
        "The files of the data set are missing or incomplete, or do not have the expected form.",
        "Fix the files and resume, or launch a copy with other data.",
        COPY,
        "Copy and choose the data",
    ),
    "out_of_memory": Advice(
        "Memory ran out",
        "Images, network and both views of a batch together do not fit into the memory of the device.",
        "Launch a copy with half the batch size, or close other programs on the device.",
        COPY,
        "Copy with half the batch",
        _half_batch,
    ),
    "diverged": Advice(
        "Training diverged",
        "The learning rate is probably too large.",
        "Launch a copy with a tenth of the learning rate; a resumed run would diverge again.",
        COPY,
        "Copy with a smaller learning rate",
        _tenth_of_lr,
    ),
    "disk_full": Advice(
        "The disk is full",
        "The disk was full, so a checkpoint, snapshot or record could not be written. Earlier files are complete.",
        "Free some space (python -m lps doctor shows how much space is free), then resume.",
        RESUME,
        "Resume",
    ),
    "io_error": Advice(
        "A file could not be written or read",
        "The runs folder is read-only, belongs to another user, was moved, or its disk has a fault.",
        "Fix the problem named in the reason (python -m lps doctor checks for it), then resume.",
        RESUME,
        "Resume",
    ),
    "device": Advice(
        "The GPU was lost",
        "The driver reported a fault, the GPU was taken away, or another program crashed it.",
        "Check the GPU with nvidia-smi and resume, or launch a copy on the CPU.",
        RESUME,
        "Resume",
    ),
    "killed": Advice(
        "The run was killed",
        "Another process or the system killed it. Everything up to the last checkpoint is saved.",
        "Resume: the run continues from the last checkpoint.",
        RESUME,
        "Resume",
    ),
    "bug": Advice(
        "An error in the program",
        "An unexpected error occurred; the log has the details.",
        "Resume once. If it happens again, launch a copy with other settings and report the log.",
        RESUME,
        "Resume",
    ),
}


def advise(kind: str) -> Advice:
    """Return advice on a failed or crashed run; an unknown kind is treated as an error in the program."""
    return ADVICE.get(kind, ADVICE["bug"])


def form_link(run_id: str, advice: Advice, config: Config | None) -> dict[str, str | list[str]]:
    """Return the URL parameters of the form that launches the copy: the run's settings with the changes of `advice`."""
    changed = cli_args.format_settings(advice.changes(config)) if config else []
    return {"clone": run_id} | ({"set": changed} if changed else {})


def retry_command(run_id: str, advice: Advice, config: Config | None) -> str:
    """Return the shell command for the same step."""
    if advice.step == RESUME or config is None:
        return cli_args.format_command("resume", run_id)
    changed = cli_args.differing_settings(config.flat() | advice.changes(config), config.defaults())
    return cli_args.format_command("launch", **cli_args.task_options(config), set=changed)
