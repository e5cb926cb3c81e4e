r"""SimGCD: a classifier over all classes teaches itself across two views; an entropy term keeps all classes in use.

Citation:
    X. Wen, B. Zhao, X. Qi: Parametric Classification for Generalized Category Discovery: A Baseline Study. ICCV 2023.

Objective:
    $$\mathcal{L} = (1 - \lambda) \Big[ \frac{1}{2B} \sum_a \mathrm{CE}(q_{a'}, p_a) - \epsilon H(\bar p)
    + \frac{1}{2B} \sum_a -\log \frac{e^{v_a \cdot v_{a'} / \tau_u}}{\sum_{b \ne a} e^{v_a \cdot v_b / \tau_u}} \Big]$$
    $$+ \lambda \Big[ \frac{1}{2B_l} \sum_{a \in \mathcal{B}_l} -\log p_{a y_a}
    + \frac{1}{2B_l} \sum_{a \in \mathcal{B}_l} \frac{1}{|P(a)|} \sum_{p \in P(a)}
    -\log \frac{e^{v_a \cdot v_p / \tau}}{\sum_{b \in \mathcal{B}_l, b \ne a} e^{v_a \cdot v_b / \tau}} \Big],
    \qquad \lambda = 0.35$$
    $$p = \mathrm{softmax}(\cos(h, W) / \tau_s), \qquad q = \mathrm{softmax}(\cos(h, W) / \tau_t),
    \qquad \tau_t: 0.07 \to 0.04$$

Views:
    w1 and w2 are weak. The index a is a row: one view of one image. a' denotes the other view of the same image. P(a)
    are the other labeled rows of both views with the label of a. p, q and v are computed for every row, labeled ones
    too. v are outputs of a projection head beside the classifier, normalized to length 1.
    The mean prediction is the mean over both views.
    No gradient flows through the targets q.

Prediction:
    An image gets the id with the largest output of the classifier. The ids of seen classes are trained with labels, so
    seen accuracy is raw. The original matches all ids with classes.

Deviations:
    - Common protocol: the start (SimCLR) and the network are those of all methods (original: DINO ViT-B/16 with its
      last block trained). So are the optimizer, schedule, weight decay, steps and weak views. The original schedule is
      a cosine to 1e-4, and its weight decay leaves out biases and norms. Labeled and unlabeled images have the same
      proportion in a batch as in the split (original: half and half).
    - The temperature of the teacher decreases over the same share of the run as in the original (30 of 200 epochs).
    - The hidden layers of the projection head (original: 2048) are at most 4 times as wide as the features, which only
      matters for small backbones. Its weights start like those of torch layers (original: normal, deviation 0.02).
    - The classifier is the cosine classifier of the original, regardless of `network.head` and `network.cosine_scale`.
    - The entropy has a minus sign, as in the authors' code (the sign in the paper is wrong). Their code adds log K,
      which changes no gradient. The weight is 1; the original uses 4 on CIFAR-100 and 2 on CUB. With a prior q other
      than equal shares, KL(p || q) replaces -H(p), up to a constant.
"""

import torch
from torch import Tensor

from lps.data.batches import Batch
from lps.methods import Method, Progress
from lps.methods._distilled import Distilled
from lps.methods.parts.measurements import Measurement, sum_terms
from lps.methods.parts.pseudo_labels import distribution_measurements


class SimGCD(Distilled, Method):
    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        outputs = self.network.forward_views(batch.views())
        logits = [self.class_logits(view) for view in outputs]
        total, measured = sum_terms(self.terms(logits, [view.logits for view in outputs], batch.targets, progress))
        mean = torch.cat(logits).detach().softmax(dim=1).mean(dim=0)
        return total, measured | distribution_measurements(mean, self.class_prior)
