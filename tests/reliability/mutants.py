"""Broken variants of the store, each with the trials that must find it out. They are applied in forked processes."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from lps.files import atomic, disk
from lps.methods.parts.optimizers import without_compiler
from lps.store import events
from lps.training import checkpoints
from lps.training import loop as training
from tests.reliability.faults import unsynced
from tests.reliability.operations import points
from tests.reliability.trials import Workshop, fault_and_resume


def optimizer_forgotten() -> None:
    """Resume with the weights alone."""
    without_compiler(torch.optim.SGD).load_state_dict = lambda self, state: None


def noise_of_the_process() -> None:
    """Order and noise follow from what this process did, not from the epoch."""
    real, begun = training.training_batches, []

    def batches(images, targets, split, views, plan, config, epoch, **more):
        begun.append(epoch)
        return real(images, targets, split, views, plan, config, len(begun) - 1, **more)

    training.training_batches = batches


def resume_untold() -> None:
    """No `start` event where a run goes on: what was done twice stays."""
    real = events.EventWriter.append

    def append(self, kind, *, epoch, **more):
        if kind != "start" or epoch == 0:
            real(self, kind, epoch=epoch, **more)

    events.EventWriter.append = append


def torn_line_kept() -> None:
    """The next event is glued to a line that was never finished."""
    events.end_of_events = lambda path: path.stat().st_size if path.exists() else 0


def written_in_place_and_believed() -> None:
    """Files are overwritten where they are, and checkpoints are read without a look at their sums."""

    def write_whole(path, data):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        disk.write(descriptor, data)
        disk.sync(descriptor)
        os.close(descriptor)

    atomic.write_whole = write_whole
    training.snapshots.write_whole = write_whole
    checkpoints.read_checked = lambda path: path.read_bytes() if path.exists() else None


def bytes_not_waited_for() -> None:
    """A file gets its name before its bytes are on the disk."""
    disk.sync = unsynced


def names_not_waited_for() -> None:
    """An epoch is called safe before the disk knows the names of its files."""
    disk.sync_folder = unsynced


def old_one_removed_first() -> None:
    """Room for the new checkpoint is made before it is written."""
    real = checkpoints.save_checkpoint

    def save(folder, name, state):
        checkpoints.prune_checkpoints(folder, num_kept=0)
        return real(folder, name, state)

    checkpoints.save_checkpoint = save


def best_forgotten() -> None:
    """A run that goes on does not ask whether its checkpoint was to be called best."""
    real, keep = training.RunTraining._restore, checkpoints.keep_as_best

    def restore(self):
        checkpoints.keep_as_best = lambda folder, name: None
        try:
            return real(self)
        finally:
            checkpoints.keep_as_best = keep

    training.RunTraining._restore = restore


def temporary_files_left() -> None:
    """Nobody removes what a killed writer left."""
    training.remove_abandoned = lambda folder: None


@dataclass(frozen=True)
class Mutant:
    """break_it: applied in the process that trains; kind, operations: the trials in which it must come to light."""

    break_it: Callable[[], None]
    kind: str
    operations: tuple[str, ...]


MUTANTS = [
    Mutant(optimizer_forgotten, "kill", ("write",)),
    Mutant(noise_of_the_process, "kill", ("write",)),
    Mutant(resume_untold, "kill", ("create",)),
    Mutant(torn_line_kept, "half", ("write",)),
    Mutant(written_in_place_and_believed, "half", ("write",)),
    Mutant(bytes_not_waited_for, "power", ("rename", "sync_folder")),
    Mutant(names_not_waited_for, "power names", ("create", "rename")),
    Mutant(old_one_removed_first, "kill", ("create", "write")),
    Mutant(best_forgotten, "kill", ("link", "rename")),
    Mutant(temporary_files_left, "kill", ("rename",)),
]


def hunt(workshop: Workshop, mutant: Mutant) -> Iterator[tuple[int, list[str]]]:
    """(number of the operation, what is wrong) of the trials for a mutant: from the end of the training backwards."""
    probe = workshop.trial(mutant.break_it)
    probe.carry_out()
    operations = probe.operations()  # a mutant may do fewer
    for number in reversed(points(operations, mutant.kind)):
        if operations[number - 1] in mutant.operations:
            yield number, fault_and_resume(workshop, mutant.kind, number, mutant.break_it)
