"""70,000 pieces of clothing, 28x28 grey pixels each, in 10 classes.

H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST, a novel image dataset for benchmarking. 2017.
"""

from lps.datasets import Images
from lps.datasets._torchvision import Remote

TITLE = "Fashion-MNIST"
SUMMARY = "70,000 pieces of clothing in 28x28 grey pixels, 10 classes; a download of 31 MB."

RECIPE = {
    "epochs": 100,
    "batch_size": 512,
    "lr": 0.1,
    "weight_decay": 5e-4,
    "network.name": "cifar_resnet18",
    "network.freeze_until": "layer3",
    "views": "grey",
    "pretrain.epochs": 200,
    "pretrain.batch_size": 512,
    "pretrain.optimizer": "sgd",
    "pretrain.lr": 0.06,
    "pretrain.weight_decay": 5e-4,
    "pretrain.projector_outputs": 128,
    "pretrain.temperature": 0.5,
}

REMOTE = Remote(
    name="fashion_mnist",
    title=TITLE,
    kind="FashionMNIST",
    files=("FashionMNIST/raw/*-ubyte",),
    size="31 MB",
)


def load(path: str | None, image_size: int | None = None) -> Images:
    """60,000 training images, then 10,000 test images; `datasets.load` does the resizing."""
    return REMOTE.load(path)


stamp = REMOTE.stamp
fetch = REMOTE.fetch
