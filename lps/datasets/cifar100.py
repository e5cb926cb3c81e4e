"""60,000 photographs of 32x32 pixels in 100 classes. The first fifty by name are the paper's seen ones.

A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images. Technical report, University of Toronto, 2009.
"""

from lps.datasets import Images
from lps.datasets._torchvision import Remote

TITLE = "CIFAR-100"
SUMMARY = "60,000 photographs of 32x32 pixels in 100 classes, from the paper; a download of 170 MB."

RECIPE = {
    "epochs": 200,
    "batch_size": 512,
    "lr": 0.1,
    "weight_decay": 5e-4,
    "network.name": "cifar_resnet18",
    "network.freeze_until": "layer3",
    "views": "cifar",
    "pretrain.epochs": 500,
    "pretrain.batch_size": 512,
    "pretrain.optimizer": "sgd",
    "pretrain.lr": 0.06,
    "pretrain.weight_decay": 5e-4,
    "pretrain.projector_outputs": 128,
    "pretrain.temperature": 0.5,
}

REMOTE = Remote(
    name="cifar100",
    title=TITLE,
    kind="CIFAR100",
    files=(
        "cifar-100-python/train",
        "cifar-100-python/test",
        "cifar-100-python/meta",
    ),
    size="170 MB",
)


def load(path: str | None, image_size: int | None = None) -> Images:
    """50,000 training images, then 10,000 test images; `datasets.load` does the resizing."""
    return REMOTE.load(path)


stamp = REMOTE.stamp
fetch = REMOTE.fetch
