"""70,000 pieces of clothing, 28x28 grey pixels each, in 10 classes.

60,000 training images, then 10,000 test images.

H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST, a novel image dataset for benchmarking. 2017.
"""

from lps.datasets._recipes import GREY
from lps.datasets._torchvision import Remote

TITLE = "Fashion-MNIST"
SUMMARY = "70,000 pieces of clothing in 28x28 grey pixels, 10 classes; a download of 31 MB."
CLASSES = 10

RECIPE = GREY

REMOTE = Remote(
    name="fashion_mnist", title=TITLE, kind="FashionMNIST", files=("FashionMNIST/raw/*-ubyte",), size="31 MB"
)
load, stamp, fetch = REMOTE.load, REMOTE.stamp, REMOTE.fetch
