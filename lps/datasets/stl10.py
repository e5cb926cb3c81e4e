"""13,000 photographs of 96x96 pixels in 10 classes.

5,000 training images, then 8,000 test images.

Its 100,000 further images are left out: they also show unknown classes beyond the ten, so that no number of novel
classes could be right.

A. Coates, H. Lee, A. Y. Ng: An Analysis of Single Layer Networks in Unsupervised Feature Learning. AISTATS 2011.
"""

from lps.datasets._recipes import PHOTOS
from lps.datasets._torchvision import Remote

TITLE = "STL-10"
SUMMARY = (
    "13,000 labeled photographs of 96x96 pixels in 10 classes; a download of 2.6 GB. The rest of STL-10 is not used."
)
CLASSES = 10

RECIPE = PHOTOS | {"batch_size": 256, "pretrain.batch_size": 256, "pretrain.lr": 0.03}

REMOTE = Remote(
    name="stl10",
    title=TITLE,
    kind="STL10",
    files=("stl10_binary/*.bin", "stl10_binary/class_names.txt"),
    size="2.6 GB",
    by_split=True,
)
load, stamp, fetch = REMOTE.load, REMOTE.stamp, REMOTE.fetch
