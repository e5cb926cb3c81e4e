"""Say what a model was trained on, and warn if most of the predicted pictures are unlike its training pictures."""

from collections import Counter
from contextlib import suppress

import numpy as np
import streamlit as st

from lps.analysis import naming
from lps.errors import UserError
from lps.inference.prediction_result import PredictionResult
from lps.settings import catalog
from lps.store import titles
from lps.store.inherited_files import FREE, keeps_class_free
from lps.store.runs import Run
from lps.ui.pictures import nouns, points, predictions
from lps.ui.shared import escape
from lps.wording import counted, first_of, listed

_MAX_NAMED = 8  # classes
_FEWEST = 5  # pictures of a warning: of fewer, several may be far from all others by chance
_UNLIKE = 0.5  # share of the pictures beyond the usual limit, which 5 % of the training pictures exceed


def show_training_data(run: Run) -> None:
    """Show the data set and the classes that the model knows."""
    st.caption(escape.markdown(f"Trained on {_describe_training_data(run)}."))


def _describe_training_data(run: Run) -> str:
    """Return "Handwritten digits: 5 classes with labels (0, 1, 2, 3, 4) and 5 novel classes".

    If a novel cluster is empty: "... and 1 novel class without pictures", or "... and 1 novel class, kept free for
    pictures of unknown kinds". Once the user has named clusters: "..., 3 clusters with your names (six, seven, nine)
    and 1 without a name".
    """
    name = _name_data(run)
    try:
        split = points.read_partition(run).split
    except UserError:
        return name
    seen, novel = split.classes.seen, split.classes.total - split.classes.seen
    text = f"{name}: {counted(seen, 'class')} with labels ({first_of(split.class_names[:seen], _MAX_NAMED)})"
    view = None
    with suppress(UserError):
        named_epochs = naming.named_epochs(naming.read_entries(run))
        stored = points.stored_epochs(run)
        epochs = [epoch for epoch in stored if epoch in named_epochs] or stored
        view = predictions.read_view(run, epochs[-1], is_thorough=False) if epochs else None
    if view is None or view.decisions.is_empty:
        clusters = view.clusters if view and view.defaults else []
        empty = sum(not cluster.size and cluster.id not in view.defaults for cluster in clusters)
        parts = [counted(novel - empty, "novel class")] * (novel > empty)
        without_pictures = f"{counted(empty, 'novel class')} without pictures"
        parts += [f"1 novel class, {FREE}" if keeps_class_free(run) else without_pictures] * (empty > 0)
        return listed([text, *parts])
    found = [c.id for c in view.clusters if c.size and c.id not in {*view.defaults, *view.decisions.rejected}]
    names = [view.name(cluster) for cluster in found if cluster in view.decisions.names]
    unnamed = counted(len(found) - len(names), "cluster")
    parts = [text] + [f"{counted(len(names), 'cluster')} with your names ({first_of(names, _MAX_NAMED)})"] * bool(names)
    parts += [f"{unnamed} without a name"] * (len(names) < len(found))
    return listed(parts)


def accuracy_by_class(run: Run, epoch: int) -> dict[str, tuple[float, int]]:
    """Return (accuracy, number of withheld labels) of each class with such labels; none if these cannot be read."""
    try:
        view = predictions.read_view(run, epoch, is_thorough=False)
    except UserError:
        return {}
    rows = view.split.validation_rows
    counts, right = Counter[str](), Counter[str]()
    for cluster, label in zip(view.merged[rows].tolist(), view.truth[rows].tolist()):
        name = view.class_name(label)
        counts[name] += 1
        right[name] += view.name(cluster) == name
    return {name: (right[name] / count, count) for name, count in counts.items()}


def _name_data(run: Run) -> str:
    config = run.config_if_readable()
    if config is None:
        return "unknown data, because the settings of the run cannot be read"
    if config.dataset_path is not None:
        return titles.data_of(run, config.dataset)
    return catalog.dataset_titles().get(config.dataset, config.dataset)


def warn_of_other_data(run: Run, predicted: PredictionResult) -> None:
    """Warn if most pictures are farther from the training pictures than 95 % of these are from each other."""
    num_far, count = int(np.sum(predicted.distance > predicted.threshold())), len(predicted.files)
    if count >= _FEWEST and num_far > _UNLIKE * count:
        say, name = nouns.of(run), _name_data(run)
        sentence = say(f"{num_far:,} of {count:,} pictures are unlike the images that this model was trained on ")
        st.warning(escape.markdown(f"{sentence}({name}), so their classes may be wrong."), icon=":material/compare:")
