"""What each column of predictions.csv holds, for its writer, the page Predict, `lps predict --help` and the docs."""

import math

from lps.inference.prediction_result import AGREEING, NONE
from lps.inference.rejection import NEIGHBOURS


def describe_columns(threshold: float | None = None) -> dict[str, str]:
    """Return the meaning of each column by its name, in the order of the table.

    threshold: the largest distance of a picture that gets a class, None if it is not known yet.
    """
    limit = "the limit" if threshold is None else f"{threshold:.4f}, the limit,"
    if threshold is not None and math.isinf(threshold):
        limit = "the limit (none is set)"
    return {
        "file": "path of the picture in its folder, or its number in an array",
        "name": f'the class; empty for "{NONE}"',
        "confidence": "how sure the model is of its guess, 0 to 1",
        "none": f'yes for "{NONE}"',
        "guess": f'the most likely class, also for "{NONE}"',
        "predicted": "number of the class in the model; another run has other numbers",
        "cluster": "number of the cluster on the page Clusters: predicted, with your merges and splits of this run. "
        "Without any, both are equal",
        "group": "about the class, not the picture: seen if the run learned the class from labels, also from names "
        "that you gave to clusters before you trained again; novel if the run found the class without labels",
        "distance": "how unlike the training pictures the picture is, 0 to 2 (mean over the "
        f'{NEIGHBOURS} most similar ones); above {limit} it is "{NONE}"',
        "new_kind": "number of the possible novel class that the picture belongs to, 1 for the largest; mostly empty",
        "doubtful": f"yes if fewer than {AGREEING} of the {NEIGHBOURS} most similar training pictures have this class; "
        f'empty for "{NONE}"',
        "nearest_1": "the most similar training picture, by its file or number",
        "nearest_2": "the second most similar one",
        "nearest_3": "the third most similar one",
    }
