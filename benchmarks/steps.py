"""Run training steps like `lps.training.loop`, without files and without the work between epochs."""

from collections.abc import Iterator

from benchmarks.cases import Case
from lps.data.batches import Batch, training_batches
from lps.data.views import views_of
from lps.methods.parts.measurements import Averages
from lps.network.network import autocast


def batches(case: Case, count: int) -> Iterator[Batch]:
    """`count` batches, from as many epochs as that takes."""
    views = tuple(views_of(case.config)[name] for name in case.method.views)
    material, epoch = case.material, case.progress.epoch
    while count > 0:
        for batch in training_batches(
            material.images, case.targets, material.split, views, material.plan, case.config, epoch
        ):
            yield batch
            count -= 1
            if count == 0:
                return
        epoch += 1


def step(case: Case, batch: Batch, averages: Averages) -> None:
    with autocast(case.config, case.device):
        loss, measured = case.method.loss(batch, case.progress)
    case.optimizer.zero_grad()
    loss.backward()
    case.optimizer.step()
    case.method.after_step()
    averages.add(measured)


def steps(case: Case, count: int) -> None:
    """`count` steps; what was measured is fetched once, at the end."""
    averages = Averages()
    for batch in batches(case, count):
        step(case, batch, averages)
    averages.result()
