"""Export a model as a folder that works without LPS Studio.

It contains `model.onnx` (`lps.inference.model_graph`), `labels.json` with the names that the user gave, `card.md` with
the model's purpose, accuracy and limits, and `example.py`, which needs onnxruntime, numpy and pillow.
"""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

from lps.analysis import labels
from lps.analysis.naming import Naming
from lps.files import disk
from lps.files.atomic import PUBLIC, write_whole
from lps.files.atomic_folder import draft_folder, new_folder
from lps.inference import export_job, model_graph, prediction, trained_model
from lps.inference.new_pictures import PictureForm
from lps.inference.prediction_result import NONE
from lps.inference.rejection import DEFAULT_KEEP, TradeOff
from lps.inference.trained_model import TrainedModel
from lps.network import shipped_weights
from lps.settings import backbone_names, catalog
from lps.settings.backbone_names import ABOUT_LABELS
from lps.store import provenance
from lps.store.events import read_history
from lps.store.runs import Run
from lps.wording import counted

FILES = ("model.onnx", "labels.json", "card.md", "example.py")
_FARTHEST = 2.0  # cosine distance
_SCORES = {  # event name -> (title, part of the images)
    "accuracy/all": ("all", "all"), "accuracy/seen": ("seen classes", "seen"),
    "accuracy/novel": ("novel classes, best matching of clusters", "novel"),
    "accuracy/validation": ("withheld labels", "validation"),
    "test/accuracy/all": ("test images, all", "test"),
}  # fmt: skip


def write_model_folder(run: Run, target: Path) -> Path:
    """Write the folder, whole or not at all, and return it.

    Raises `UserError` if the folder exists or the model cannot be exported.
    """
    export_job.check_installed()
    model = trained_model.load_model(run)
    decisions, lost = prediction.decisions_for_model(model)
    compared = model.references.without(decisions.unlabeled)
    curve = prediction.trade_off_of(model, compared, decisions)

    example = "example_vectors.txt" if model.form.are_vectors else "example.txt"

    def fill(draft: Path) -> None:
        model_graph.write_graph(draft / "model.onnx", model, compared)
        label_facts = _labels(model, decisions, curve)
        content = json.dumps(label_facts, indent=1, ensure_ascii=False).encode() + b"\n"
        write_whole(draft / "labels.json", content, PUBLIC)
        card = _card(model, decisions, curve, label_facts, lost)
        write_whole(draft / "card.md", card.encode("utf-8", "replace"), PUBLIC)
        write_whole(draft / "example.py", (Path(__file__).parent / example).read_bytes(), PUBLIC)

    return new_folder(target, fill)


def write_zip(run: Run, target: Path) -> None:
    """Write the folder as one .zip, whole or not at all."""
    with draft_folder(target.parent, target.stem) as draft:
        folder = write_model_folder(run, draft / "files" / "model")  # which locks the folder above
        packed = draft / "model.zip"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for name in FILES:
                archive.write(folder / name, f"model-{run.id[-6:]}/{name}")
        disk.rename(packed, target)


# ---------------------------------------------------------------------------------------------------- labels


def _labels(model: TrainedModel, decisions: Naming, curve: TradeOff) -> dict[str, object]:
    """Return the name of each of the model's ids: for a merged cluster, that of its target; null for no class."""
    split, defaults = model.material.split, labels.default_names(model.run, model.material.split)
    count = max(split.classes.total, int(model.references.predicted.max(initial=0)) + 1)
    classes = []
    for number in range(count):
        cluster = decisions.root(number)
        name = None if cluster in decisions.rejected else labels.name_of(cluster, decisions, defaults)
        group = labels.group_of_cluster(cluster, split, decisions, defaults)
        classes.append({"id": number, "cluster": cluster, "name": name, "group": group})
    limit = curve.threshold(DEFAULT_KEEP)
    return {
        "version": 1,
        "run": model.run.id,
        "epoch": model.epoch,
        "input": _input(model.form),
        "none_of_these": {"distance": min(limit, _FARTHEST), "rule": f"{curve.in_words(limit)} {curve.basis}"},
        "classes": classes,
    }


def _input(form: PictureForm) -> dict[str, object]:
    input_as_json = {"name": model_graph.input_of(form), "type": "float32" if form.are_vectors else "uint8"}
    if form.are_vectors:
        return input_as_json | {"layout": "NC", "channels": form.channels}
    return input_as_json | {"layout": "NHWC", "height": form.height, "width": form.width, "channels": form.channels}


# ---------------------------------------------------------------------------------------------------- the card


def _card(model: TrainedModel, decisions: Naming, curve: TradeOff, label_facts: Mapping, lost: list[str]) -> str:
    config, form = model.config, model.form
    info = catalog.method_info(config.method)
    stored = ", whose features are fixed: only a small head was trained on them" if model.backbone is not None else ""
    on = "embeddings, with a small head" if form.are_vectors else f"{config.network_name}{stored}"
    parts = {
        "": [f"# {model.run.title}", "", f"Run {model.run.id}, epoch {model.epoch}; made with LPS Studio."],
        "About the model": [f"{info.summary} It was trained on {on}.", _what_it_takes(form)],
        "Data": _data(model),
        "Classes": _classes(label_facts),
        "Scores": _scores(model),
        "None of these": [
            f'A picture is "{NONE}" if its distance from the training images is larger than '
            f"{label_facts['none_of_these']['distance']:.4f}. "
            f"This limit {label_facts['none_of_these']['rule']}."
        ],
        "Limits": _limits(model, decisions, lost),
        "Start weights": _start(model),
        "Settings": [f"`{provenance.train_command(config)}`"],
    }
    lines = []
    for title, paragraphs in parts.items():
        lines += [*([f"## {title}"] if title else []), "", *paragraphs, ""]
    return "\n".join(lines).lstrip("\n")


def _what_it_takes(form: PictureForm) -> str:
    gives = "returns `class`, `confidence`, `distance` and `logits` of each"
    if form.are_vectors:
        return (
            f"`model.onnx` takes any number n of vectors, float32 (n, {form.channels}), like the training vectors,"
            f" and {gives}. `example.py` reads them from a .npy file."
        )
    return (
        f"`model.onnx` takes any number n of pictures, uint8 (n, {form.height}, {form.width}, {form.channels}), and"
        f" {gives}. It resizes and normalizes the pictures itself; `example.py` shows how to load a file."
    )


def _data(model: TrainedModel) -> list[str]:
    config, split = model.config, model.material.split
    info = catalog.dataset_info(config.dataset)
    return [
        f"The model was trained on {info.title}, with {counted(len(split.labeled), 'labeled image')} of "
        f"{counted(split.classes.seen, 'seen class')} and {counted(len(split.unlabeled), 'unlabeled image')}. "
        f"Among the unlabeled images, training looked for {counted(split.classes.novel, 'novel class')}. "
        f"The split withholds {counted(len(split.validation), 'label')} from training for validation and sets "
        f"{counted(len(split.test), 'image')} aside for testing. The seed of the split is {split.seed}.",
    ]


def _classes(label_facts: Mapping) -> list[str]:
    return ["| id | name | group |", "| ---: | --- | --- |"] + [
        f"| {class_row['id']} | {_cell(class_row['name'] or 'none of these')} | {class_row['group']} |"
        for class_row in label_facts["classes"]
    ]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _scores(model: TrainedModel) -> list[str]:
    """Return the scores of this epoch as table rows, each with its number of images."""
    evaluations = [event for event in read_history(model.run.events) if event["kind"] == "eval"]
    values = next((event["values"] for event in evaluations[::-1] if event["epoch"] == model.epoch), None)
    split, truth = model.material.split, model.material.truth
    if values is None or model.step:
        return ["These weights are from the middle of an epoch, which was not evaluated."]
    visible_truth = split.judged(truth)
    sizes = {
        "all": int((visible_truth >= 0).sum()),
        "seen": int(((visible_truth >= 0) & (visible_truth < split.classes.seen)).sum()),
        "novel": int((visible_truth >= split.classes.seen).sum()),
        "validation": len(split.validation),
        "test": len(split.test),
    }
    rows = [
        f"| {title} | {100 * values[name]:.1f} % | {sizes[part]:,} |"
        for name, (title, part) in _SCORES.items()
        if isinstance(values.get(name), (int, float)) and sizes[part]
    ]
    if not rows:
        return [
            "No accuracy was measured: the classes of the unlabeled images are not known, and no label was withheld."
        ]
    head = ["| accuracy on | | n |", "| --- | ---: | ---: |"]
    used = "Training used the unlabeled images, but not their true classes. It did not use the test images."
    return [*head, *rows, "", used]


def _limits(model: TrainedModel, decisions: Naming, lost: list[str]) -> list[str]:
    limits = [
        "- Accuracy was measured on pictures from the same source; on other pictures it is unknown.",
        "- A picture of any other class gets one of these names unless its distance is too large.",
        "- Confidence was not calibrated.",
        "- The model file contains features of training images for comparison.",
    ]
    if decisions.moved:
        limits.append(
            "- The ids are those of the model. It does not know that a user moved images to another cluster or split "
            "images off."
        )
    if lost:
        limits.append(
            "- These names were given at another epoch, and no cluster of this epoch matches them: "
            f"{_cell(', '.join(lost))}."
        )
    return limits


def _start(model: TrainedModel) -> list[str]:
    """Describe the start weights and their licence."""
    config = model.config
    name, start = config.network_name, config.network_start
    if model.form.are_vectors:
        return [
            "The model has no backbone. Compute new vectors with the program that made the training vectors; it has "
            "its own licence."
        ]
    sentences = [f"`network.start` is {start}."]
    if start in ("published", "torchvision") and name == backbone_names.LITE0:
        sentences = [
            f"EfficientNet-Lite0, from the package {shipped_weights.PACKAGE.replace('_', '-')} (Apache License 2.0), "
            "trained by its authors on ImageNet, whose pictures have their own terms."
        ]
    elif start in ("published", "torchvision"):
        sentences = [f"The published weights of {name}; read the licence of their publisher before you use them."]
    elif start == "checkpoint":
        sentences = ["A user's file of weights; its licence is not known here."]
    elif start == "simclr":
        sentences = ["Pretrained from scratch on the same pictures; no published weights were used."]
    elif start == "random":
        sentences = ["Random weights; no published weights were used."]
    return sentences + ([f"{ABOUT_LABELS}."] if config.rests_on_labels else [])
