"""Training steps in the structure of the original code, as a reference for measurements.

Pictures are PIL images; two worker processes of a `DataLoader` make the views one image after the other. Every view has
its own forward pass in the default memory layout, in full precision. LPS's loss filters rows in Python, waits for the
device for each of them, and builds a matrix of similarities for each contrastive term. For the other methods the loss
is the project's own. Every step fetches every number that it reports. The mathematics is that of `lps.methods`.
"""

import copy
import math
from types import MethodType

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchmarks import pil_views
from benchmarks.cases import Case
from lps.data.batches import Batch
from lps.methods import Method, Progress
from lps.network.network import Network, Outputs

WORKERS = 2


class Pictures(Dataset):
    """Item i: the views of picture i, float32 (channels, height, width) each, and i."""

    def __init__(self, images: Tensor, views: list):
        """images: uint8 (n, channels, height, width)."""
        pixels = images.cpu().permute(0, 2, 3, 1).contiguous().numpy()
        self.pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
        self.views = views

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, i: int) -> tuple:
        image = Image.fromarray(self.pixels[i])
        return *(view(image) for view in self.views), i


class Reference:
    """A case's method with weights of its own, trained in the original's structure."""

    def __init__(self, case: Case, workers: int = WORKERS):
        self.case = case
        self.method, self.optimizer = _twin(case)
        names = case.method.views
        self.pictures = Pictures(
            case.material.images.pixels, [pil_views.FAMILIES[case.config.views][name] for name in names]
        )
        self.workers = workers

    def steps(self, count: int) -> None:
        """An epoch of `count` steps; the workers begin and end with it."""
        for *views, ids in DataLoader(self.pictures, batch_sampler=self._rows(count), num_workers=self.workers):
            self.step(self.batch(views, ids))

    def step(self, batch: Batch) -> float:
        self.method.train()
        is_lps = self.case.config.method == "lps"
        loss, measured = (lps_loss if is_lps else own_loss)(self.method, batch, self.case.progress)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.method.after_step()
        for value in measured.values():
            _fetch(value)
        return loss.item()

    def batch(self, views: list[Tensor], ids: Tensor) -> Batch:
        """The views on the device, labeled rows first."""
        split, device = self.case.material.split, self.case.device
        views = [view.to(device) for view in views]
        count = self.case.material.plan.labeled
        rows = torch.searchsorted(torch.from_numpy(split.labeled), ids[:count])
        return Batch(
            labeled_views=tuple(view[:count] for view in views),
            targets=self.case.targets[rows.to(device)],
            unlabeled_views=tuple(view[count:] for view in views),
            unlabeled_positions=torch.searchsorted(torch.from_numpy(split.unlabeled), ids[count:]).to(device),
        )

    def _rows(self, count: int) -> list[list[int]]:
        """Image ids of `count` batches, labeled ones first; every set is shuffled, and again when it is used up."""
        split, plan = self.case.material.split, self.case.material.plan
        labeled = _shuffled(split.labeled, count * plan.labeled).view(count, -1)
        unlabeled = _shuffled(split.unlabeled, count * plan.unlabeled).view(count, -1)
        return torch.cat([labeled, unlabeled], dim=1).tolist()


def _shuffled(ids, count: int) -> Tensor:
    ids = torch.from_numpy(ids)
    return torch.cat([ids[torch.randperm(len(ids))] for _ in range(-(-count // len(ids)))])[:count]


def _twin(case: Case) -> tuple[Method, torch.optim.Optimizer]:
    """A copy of the case's method in the default memory layout, with plain SGD, one parameter after the other."""
    method = copy.deepcopy(case.method).to(memory_format=torch.contiguous_format)
    for module in method.modules():
        if isinstance(module, Network):
            module.forward = MethodType(_plain_forward, module)
    trained = [parameter for parameter in method.parameters() if parameter.requires_grad]
    config = case.config
    settings = {"lr": config.lr, "weight_decay": config.weight_decay, "foreach": False}
    return method, torch.optim.SGD(trained, momentum=config.momentum, **settings)


def _plain_forward(network: Network, images: Tensor) -> Outputs:
    features = network.backbone(images)
    return Outputs(features, network.classifier(features))


def _fetch(value) -> object:
    if isinstance(value, tuple):
        return [_fetch(part) for part in value]
    return value.tolist() if isinstance(value, Tensor) else value


def own_loss(method: Method, batch: Batch, progress: Progress) -> tuple[Tensor, dict]:
    return method.loss(batch, progress)


def lps_loss(method: Method, batch: Batch, progress: Progress) -> tuple[Tensor, dict]:
    """LPS at its default options, as in `lps.methods.lps`, row by row."""
    first, second, strong = (method.network(view) for view in batch.views())
    labeled = len(batch.targets)
    probabilities = F.softmax(second.logits.detach(), dim=1)
    labels, kept = _believed(method, probabilities, batch.targets, progress)
    pi_hat = probabilities[kept].mean(0)
    kl = -math.log(len(pi_hat)) - pi_hat.log().mean()
    margins = method.margin_scale * kl * pi_hat / pi_hat.max()

    believed = kept[labeled:]  # among the unlabeled rows
    supervised = _margin_loss(first.logits[:labeled], labels[:labeled], margins).mean()
    guessed = _margin_loss(strong.logits[labeled:][believed], labels[labeled:][believed], margins)
    mean = F.softmax(first.logits, dim=1).mean(0)
    terms = {
        "margin": supervised + guessed.sum() / len(believed),
        "clustered": method.pseudo_label_weight
        * _clustered(second.logits[kept], strong.logits[kept], labels[kept], method.temperature),
        "apart": method.unsupervised_weight * _apart(second.logits, strong.logits, ~kept, method.temperature),
        "entropy": method.entropy_weight * (mean * mean.log()).sum(),
    }
    total = sum(terms.values())
    return total, terms | {"kl": kl, "pi_hat": pi_hat, "margins": margins}


def _believed(method: Method, probabilities: Tensor, targets: Tensor, progress: Progress) -> tuple[Tensor, Tensor]:
    """(labels int64 (n,), whether a row counts bool (n,)); the device is asked about every row, one at a time."""
    novel = method.threshold_novel(progress)
    labels, kept = [], []
    for row, values in enumerate(probabilities):
        confidence, label = values.max(0)
        threshold = method.threshold_seen if label.item() < method.classes.seen else novel
        known = row < len(targets)
        labels.append(targets[row].item() if known else label.item())
        kept.append(known or confidence.item() >= threshold)
    return torch.tensor(labels, device=targets.device), torch.tensor(kept, device=targets.device)


def _margin_loss(logits: Tensor, targets: Tensor, margins: Tensor) -> Tensor:
    chosen = F.one_hot(targets, logits.shape[1]).float()
    return F.cross_entropy(logits + chosen * margins[targets][:, None], targets, reduction="none")


def _exponentials(vectors: Tensor, temperature: float) -> Tensor:
    """exp(cosine / temperature) of all pairs (n, n), the diagonal included."""
    unit = F.normalize(vectors, dim=1)
    return torch.exp(unit @ unit.T / temperature)


def _clustered(second: Tensor, strong: Tensor, labels: Tensor, temperature: float) -> Tensor:
    pairs = _exponentials(torch.cat([second, strong]), temperature)
    labels = labels.repeat(2)
    others = ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    positive = (labels[:, None] == labels[None, :]) & others
    share = (pairs * positive).sum(1) / positive.sum(1) / (pairs * others).sum(1)
    return -share.log().mean()


def _apart(second: Tensor, strong: Tensor, chosen: Tensor, temperature: float) -> Tensor:
    pairs = _exponentials(torch.cat([second, strong]), temperature)
    partner = torch.exp(F.cosine_similarity(second, strong, dim=1) / temperature).repeat(2)
    losses = -(partner / (pairs.sum(1) - pairs.diagonal())).log()
    return losses[chosen.repeat(2)].sum() / len(losses)
