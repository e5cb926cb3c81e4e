"""70,000 handwritten digits of 28x28 grey pixels.

Y. LeCun, C. Cortes, C. J. C. Burges: The MNIST database of handwritten digits. 1998.
"""

from lps.datasets import Images
from lps.datasets._torchvision import Remote

TITLE = "MNIST"
SUMMARY = "70,000 handwritten digits of 28x28 grey pixels; a download of 12 MB."

RECIPE = {
    "epochs": 50,
    "batch_size": 512,
    "lr": 0.1,
    "weight_decay": 5e-4,
    "network.name": "cifar_resnet18",
    "network.freeze_until": "layer3",
    "views": "grey",
    "pretrain.epochs": 100,
    "pretrain.batch_size": 512,
    "pretrain.optimizer": "sgd",
    "pretrain.lr": 0.06,
    "pretrain.weight_decay": 5e-4,
    "pretrain.projector_outputs": 128,
    "pretrain.temperature": 0.5,
}

REMOTE = Remote(
    name="mnist",
    title=TITLE,
    kind="MNIST",
    files=("MNIST/raw/*-ubyte",),
    size="12 MB",
    class_names=tuple(str(digit) for digit in range(10)),
)


def load(path: str | None, image_size: int | None = None) -> Images:
    """60,000 training images, then 10,000 test images; `datasets.load` does the resizing."""
    return REMOTE.load(path)


stamp = REMOTE.stamp
fetch = REMOTE.fetch
