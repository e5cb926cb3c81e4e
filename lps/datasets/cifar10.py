"""60,000 photographs of 32x32 pixels in 10 classes. The first five are the paper's seen ones.

50,000 training images, then 10,000 test images.

A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images. Technical report, University of Toronto, 2009.
"""

from lps.datasets._recipes import PHOTOS
from lps.datasets._torchvision import Remote

TITLE = "CIFAR-10"
SUMMARY = "60,000 photographs of 32x32 pixels in 10 classes, used in the paper; a download of 170 MB."
CLASSES = 10

RECIPE = PHOTOS | {"precision": "fp32"}  # as the originals

REMOTE = Remote(
    name="cifar10",
    title=TITLE,
    kind="CIFAR10",
    files=("cifar-10-batches-py/*_batch*", "cifar-10-batches-py/batches.meta"),
    size="170 MB",
)
load, stamp, fetch = REMOTE.load, REMOTE.stamp, REMOTE.fetch
