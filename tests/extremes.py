"""Extreme batches, as arguments of a scene: a method's loss and gradient must stay finite on them."""

from lps.data.classes import Classes

FEW_ROWS = {"one labeled row": dict(labeled=1), "one unlabeled row": dict(unlabeled=1)}
FEW_LABELS = {"one label in the batch": dict(targets=[2] * 5), "every label once": dict(labeled=3, targets=[0, 1, 2])}
FEW_CLASSES = {"one seen class": dict(classes=Classes(1, 4)), "one novel class": dict(classes=Classes(3, 4))}
SCALES = {"outputs far apart": dict(scale=200.0), "outputs of zero": dict(scale=0.0)}
ALL = FEW_ROWS | FEW_LABELS | FEW_CLASSES | SCALES
