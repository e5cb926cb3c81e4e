"""13,000 photographs of 96x96 pixels in 10 classes.

Its 100,000 further images are left out: they also show classes beyond the ten, nobody knows which, so that no number of
novel classes could be right.

A. Coates, H. Lee, A. Y. Ng: An Analysis of Single Layer Networks in Unsupervised Feature Learning. AISTATS 2011.
"""

from lps.datasets import Images
from lps.datasets._torchvision import Remote

TITLE = "STL-10"
SUMMARY = "13,000 labeled photographs of 96x96 pixels in 10 classes (not its unlabeled ones); a download of 2.6 GB."

RECIPE = {
    "epochs": 200,
    "batch_size": 256,
    "lr": 0.1,
    "weight_decay": 5e-4,
    "network.name": "cifar_resnet18",
    "network.freeze_until": "layer3",
    "views": "cifar",
    "pretrain.epochs": 500,
    "pretrain.batch_size": 256,
    "pretrain.optimizer": "sgd",
    "pretrain.lr": 0.03,
    "pretrain.weight_decay": 5e-4,
    "pretrain.projector_outputs": 128,
    "pretrain.temperature": 0.5,
}

REMOTE = Remote(
    name="stl10",
    title=TITLE,
    kind="STL10",
    files=(
        "stl10_binary/*.bin",
        "stl10_binary/class_names.txt",
    ),
    size="2.6 GB",
    by_split=True,
)


def load(path: str | None, image_size: int | None = None) -> Images:
    """5,000 training images, then 8,000 test images; `datasets.load` does the resizing."""
    return REMOTE.load(path)


stamp = REMOTE.stamp
fetch = REMOTE.fetch
