"""Select images of the projection by conditions instead of a lasso.

Images must match all conditions. These are in the page's URL, so that a link selects the same images:
`where=predicted:3,below:50,image:17,nearest:24`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
import streamlit as st

from lps.errors import UserError
from lps.store.runs import Run
from lps.ui.pictures import coloring, nouns, points, predictions
from lps.ui.shared import url_fields

_PLACE = "where"  # in the address
_USUAL_NEAREST, _MAX_NEAREST = 24, 5000
_LARGEST = 10**9
_COLUMN = 170  # pixels, the least width of a field
CLASSES = {"predicted": "Prediction", "cluster": "Your cluster", "truth": "True class"}  # by keys of `coloring`


@dataclass(frozen=True)
class Conditions:
    """Conditions on images, None for any.

    predicted, cluster, truth: ids, -1 for none. below: confidence in percent. nearest: how many images similar to
    `image` to select, besides itself.
    """

    predicted: int | None = None
    cluster: int | None = None
    truth: int | None = None
    below: int | None = None
    image: int | None = None
    nearest: int | None = None

    def __bool__(self) -> bool:
        return any(value is not None for name, value in vars(self).items() if name != "nearest")

    def text(self) -> str:
        """Return the conditions as in a URL; `parse` reads them."""
        return ",".join(f"{name}:{value}" for name, value in vars(self).items() if value is not None)


def parse_conditions(text: str) -> Conditions:
    """Read the conditions in a URL; invalid parts are ignored."""
    names, values_by_name = {field.name for field in fields(Conditions)}, {}
    for part in text[:200].split(","):
        name, _, number = part.partition(":")
        digits = number.removeprefix("-")
        if name in names and digits.isascii() and digits.isdigit() and len(digits) <= 9:
            values_by_name[name] = int(number)
    return Conditions(**values_by_name) if values_by_name else Conditions()


def requested_conditions() -> Conditions:
    return parse_conditions(st.query_params.get(_PLACE, ""))


def keep_conditions(conditions: Conditions) -> None:
    """Write the conditions into the URL, or remove them."""
    url_fields.set_values(_PLACE, conditions.text() if conditions else None)


def find_matching_ids(run: Run, epoch: int, table: pd.DataFrame, conditions: Conditions) -> np.ndarray:
    """Return the ids of the images of `table` (of `points.read_points`) that match, ascending.

    Raises `UserError` if the features of the image in the conditions are not stored, or files are damaged.
    """
    fits = np.ones(len(table), bool)
    for column in ("predicted", "truth"):
        if (value := getattr(conditions, column)) is not None:
            fits &= (table[column] == value).to_numpy()
    if conditions.cluster is not None:
        fits &= _cluster_of_rows(run, epoch, table) == conditions.cluster
    if conditions.below is not None:
        fits &= (table["confidence"] < conditions.below / 100).to_numpy()
    if conditions.image is not None:
        fits &= table["image"].isin(_ids_around_image(run, epoch, conditions)).to_numpy()
    return np.sort(table["image"].to_numpy()[fits])


def _ids_around_image(run: Run, epoch: int, conditions: Conditions) -> list[int]:
    """Return an image and those with the most similar features."""
    neighbours = points.find_neighbours(
        run, epoch, conditions.image, min(max(conditions.nearest or _USUAL_NEAREST, 1), _MAX_NEAREST)
    )
    if neighbours is None:
        raise UserError("image", f"{conditions.image} is not on this map")
    return [conditions.image, *neighbours.images.tolist()]


def _cluster_of_rows(run: Run, epoch: int, table: pd.DataFrame) -> np.ndarray:
    """Return the cluster of every row, after the user's merges and splits."""
    view = predictions.read_view(run, epoch)
    order = np.argsort(view.split.unlabeled)
    return view.assigned[order[np.searchsorted(view.split.unlabeled, table["image"].to_numpy(), sorter=order)]]


# ---------------------------------------------------------------------------------------------------- form


def show_conditions(run: Run, epoch: int, table: pd.DataFrame, on_change: Callable[[Conditions], None]) -> None:
    """Show the form; on_change is called with its conditions after a click on its button, or the enter key."""
    conditions, choices, say = requested_conditions(), _list_options(run, epoch, table), nouns.of(run)
    current_values = {name: getattr(conditions, name) for name in choices if getattr(conditions, name) in choices[name]}
    shown_conditions = replace(conditions, **dict.fromkeys(CLASSES) | current_values)
    with (
        st.expander("Select by condition", expanded=bool(conditions), icon=":material/checklist:", key="where_opened"),
        st.form("where", border=False),
    ):
        with st.grid(columns="auto", min_column_width=_COLUMN, gap="small"):
            for name, labels in choices.items():
                url_fields.set_widget(f"where_{name}", getattr(shown_conditions, name))
                names = labels | {None: "Any"}
                st.selectbox(CLASSES[name], [None, *labels], format_func=names.get, key=f"where_{name}")
            _ask_number("below", "Confidence below", shown_conditions.below, 1, 100, "percent", "Any")
            _ask_number(
                "image",
                say("Around image"),
                shown_conditions.image,
                0,
                _LARGEST,
                say("The number below the picture"),
                "None",
            )
            nearest = shown_conditions.nearest or _USUAL_NEAREST
            help_text = say('How many of the most similar images to select; only used if "Around image" is filled in')
            _ask_number("nearest", "Nearest", nearest, 1, _MAX_NEAREST, help_text, "")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            click = {"on_click": _apply_form, "args": (tuple(choices), on_change)}
            st.form_submit_button("Select", key="where_select", icon=":material/checklist:", type="primary", **click)
            st.caption(say("Images must match all filled-in conditions. They are shown below, like a lasso selection."))


def _ask_number(name: str, label: str, value: int | None, lowest: int, highest: int, about: str, empty: str) -> None:
    url_fields.set_widget(f"where_{name}", value if value is not None and lowest <= value <= highest else None)
    st.number_input(label, lowest, highest, None, 1, key=f"where_{name}", help=about, placeholder=empty)


def _list_options(run: Run, epoch: int, table: pd.DataFrame) -> dict[str, dict[int, str]]:
    """Return the options of one of `CLASSES`, as id -> words."""
    names, options_by_name = points.read_partition(run).split.class_names, {}
    for name in CLASSES:
        if name not in coloring.list_colorings(run, epoch):
            continue
        if name == "cluster":
            view = predictions.read_view(run, epoch)
            options_by_name[name] = {int(cluster): view.title(cluster) for cluster in view.ids}
            continue
        class_ids = sorted(table[name].unique().tolist(), key=lambda class_id: (class_id < 0, class_id))
        options_by_name[name] = {int(i): names[i] if i >= 0 else "unknown or none" for i in class_ids}
    return options_by_name


def _apply_form(classes: tuple[str, ...], on_change) -> None:
    """Read the form (callback)."""
    names = (*classes, "below", "image", "nearest")
    values_by_name = {name: st.session_state.get(f"where_{name}") for name in names}
    values_by_name = {name: None if value is None else int(value) for name, value in values_by_name.items()}
    if values_by_name["image"] is None:
        values_by_name["nearest"] = None
    on_change(Conditions(**values_by_name))
