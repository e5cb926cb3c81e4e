r"""LPS: learning pace synchronization.

Citation:
    B. Ye, K. Gan, T. Wei, M.-L. Zhang: Bridging the Gap: Learning Pace Synchronization for Open-World Semi-Supervised
    Learning. IJCAI 2024.

Objective:
    $$\mathcal{L} = \mathcal{L}_{AM} + \eta_1 \mathcal{L}_{PC} + \eta_2 \mathcal{L}_{UC} + \mathcal{R}_{entropy}$$

Deviations:
    none yet
"""

from typing import Annotated, Literal


class LPS:
    def __init__(
        self,
        network,
        classes,
        *,
        margin_scale: Annotated[float, "C: how strongly the KL widens the margin", (0, 1000)] = 10.0,
        use_margin: Annotated[bool, "adaptive margin in the cross-entropy; off gives plain cross-entropy"] = True,
        pseudo_label_weight: Annotated[float, "eta1: weight of the pseudo-label contrastive loss", (0, 100)] = 1.0,
        kl_direction: Annotated[Literal["uniform_to_est", "est_to_uniform"], "direction of the KL"] = "uniform_to_est",
    ): ...
