"""99,289 digits cut out of photographs of house numbers, 32x32 pixels; the easier extra images are left out.

Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu, A. Y. Ng: Reading Digits in Natural Images with Unsupervised
Feature Learning. NIPS workshop, 2011.
"""

from lps.datasets import Images
from lps.datasets._torchvision import Remote

TITLE = "Street View house numbers"
SUMMARY = "99,289 digits from photographs of house numbers, 32x32 pixels; a download of 246 MB."

RECIPE = {
    "epochs": 100,
    "batch_size": 512,
    "lr": 0.1,
    "weight_decay": 5e-4,
    "network.name": "cifar_resnet18",
    "network.freeze_until": "layer3",
    "views": "grey",  # no flip: digits have a right way round
    "pretrain.epochs": 200,
    "pretrain.batch_size": 512,
    "pretrain.optimizer": "sgd",
    "pretrain.lr": 0.06,
    "pretrain.weight_decay": 5e-4,
    "pretrain.projector_outputs": 128,
    "pretrain.temperature": 0.5,
}

REMOTE = Remote(
    name="svhn",
    title=TITLE,
    kind="SVHN",
    files=(
        "train_32x32.mat",
        "test_32x32.mat",
    ),
    size="246 MB",
    class_names=tuple(str(digit) for digit in range(10)),
    by_split=True,
)


def load(path: str | None, image_size: int | None = None) -> Images:
    """73,257 training images, then 26,032 test images; `datasets.load` does the resizing."""
    return REMOTE.load(path)


stamp = REMOTE.stamp
fetch = REMOTE.fetch
