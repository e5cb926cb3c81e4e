"""How long a run may take on a CPU where nothing of its kind has ever finished: a rule of thumb.

Time grows with images, pixels, epochs, and what a network does for a pixel. Once a run has finished, `lps.costs` knows
better.
"""

from lps.config import Config
from lps.costs import START_S

# Microseconds of one core for a pixel of an image in an epoch: of pretraining, and of training by LPS with the stages
# frozen that the recipes freeze. Processor time of two more epochs, 300 pictures of 32 x 32, batches of 128, two quiet
# cores (AMD EPYC, PyTorch 2.15), one trial each.
MICROSECONDS = {"digits_resnet": (1.5, 2.4), "cifar_resnet18": (34.0, 21.0)}


def seconds(config: Config, images: int, height: int, width: int, cores: int) -> float | None:
    """Seconds of a run on so many images of this size; None for a network of which nothing is known."""
    if config.network_name not in MICROSECONDS:
        return None
    pretraining, training = MICROSECONDS[config.network_name]
    pretrain_epochs = config.pretrain_epochs if config.network_start == "simclr" else 0
    work = pretrain_epochs * pretraining + config.epochs * training
    return START_S + images * height * width * work * 1e-6 / max(1, cores)
