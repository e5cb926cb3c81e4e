"""A map of up to two million points: WebGL in the browser (point_map.js, map_points.js), its columns sent once.

The renderer is our own. We tested regl-scatterplot 1.16: it makes code from text (`Function.apply`), which needs
unsafe-eval, sends all points again for another colour, and draws neither density nor pictures. In a browser without
WebGL 2, the component draws the density of the points on a plain canvas.
"""

import base64
import binascii
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from lps.charts import palette
from lps.charts.figures import MAX_IN_LEGEND
from lps.files.versions import MAX_IMAGES
from lps.ui.pictures.coloring import Coloring
from lps.ui.server import columns, components, presentation
from lps.ui.shared import theme

_UNITS = 65535  # of the square that the points lie in; as in map_points.js
_HTML = """<div class="lps-map"><div class="lps-map-stage" tabindex="0" role="application"
aria-roledescription="map of points" aria-keyshortcuts="ArrowUp ArrowDown ArrowLeft ArrowRight Enter Plus Minus 0">
<canvas class="lps-map-density"></canvas><canvas class="lps-map-points"></canvas><div class="lps-map-over"></div>
<canvas class="lps-map-hand"></canvas><div class="lps-map-tip" style="display: none"></div></div>
<div class="lps-map-tools" role="toolbar" aria-label="Tools of the map"></div><div class="lps-map-legend"></div>
<p class="lps-map-summary"></p><p class="lps-map-said" aria-live="polite"></p></div>"""
_mount = components.define_component(
    "lps_map",
    components.read_files(__file__, "map_points.js", "point_map.js"),
    components.read_files(__file__, "point_map.css"),
    _HTML,
    reports=["click", "selected", "missing"],
)


@dataclass(frozen=True, eq=False)
class MapEvents:
    """Actions on a map: the image clicked since the last run, and the ids of the selected images, ascending.

    is_drawn_by_hand: the user has selected something by hand since the token changed, or cleared the selection.
    """

    clicked: int | None = None
    selected: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    is_drawn_by_hand: bool = False


def show_map(
    table: pd.DataFrame,
    coloring: Coloring,
    key: str,
    alt: str,
    names: tuple[str, ...] = (),
    frame: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    height: int = 560,
    scene: str = "",
    epoch: int = 0,
    token: str = "",
    image: int | None = None,
    selected: np.ndarray | None = None,
    pictures: str = "",
    code: str = "",
    is_large: bool = False,
    noun: str = "image",
) -> MapEvents:
    """Draw the points of `table` (of `points.read_points`) under the stable `key`.

    alt: what the map shows, for screen readers. names: of the classes. frame: (lowest, highest) x and y in sight at
    first; None for those of the points. height: pixels. scene: pan and zoom stay while it stays the same; points glide
    when the `epoch` changes. token: makes points selectable; the manual selection is reset when it changes. image: id
    of the point with a ring. selected: ids to select instead of the manual selection. pictures: as in
    `picture_files.address_of_pictures`. code: the Python that draws the map. is_large: with tools, names and clicks.
    noun: of a point.
    """
    low, high = frame or _find_extent(table)
    side = float(max(*(high - low), 1e-9))
    corner = (low + high - side) / 2
    positions = _pack_positions(table, corner, side)
    inner = (np.stack([low, high]) - corner) / side * _UNITS
    data = {
        "name": key,
        "alt": alt,
        "noun": noun,
        "ids": columns.address_of_column(table["image"].to_numpy(np.int32).tobytes()),
        "places": columns.address_of_column(positions.tobytes()),
        "facts": columns.address_of_column(_pack_facts(table)),
        "codes": columns.address_of_column(coloring.codes.astype(np.uint16).tobytes()),
        "mask": "" if selected is None else columns.address_of_column(pack_ids(selected)),
        "groups": list(zip(coloring.labels, coloring.colors)),
        "scale": coloring.is_scale,
        "named": ("groups" if coloring.is_classes else "predicted") if is_large else "",
        "names": names,
        "legend": MAX_IN_LEGEND if is_large else 0,
        "frame": inner.ravel().tolist(),
        "extent": [corner.tolist(), side],
        "scene": scene,
        "moment": epoch,
        "token": token,
        "image": image,
        "pictures": pictures,
        "code": code,
        "height": round(height * presentation.chart_scale()),
        "small": not is_large,
        "clickable": is_large,
        "theme": theme.current_theme(),
        "pairs": palette.color_pairs(),
    }
    result = _mount(key=key, data=data, height=data["height"])
    clicked, selected = components.read_id(result.click), result.selected
    if token and isinstance(selected, dict) and selected.get("token") == token:
        return MapEvents(clicked, selected_ids(selected, token), is_drawn_by_hand=True)
    return MapEvents(clicked)


def _find_extent(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return (lowest, highest) x and y of the points, with a margin."""
    if not len(table):
        return np.zeros(2), np.ones(2)
    corners = table[["x", "y"]].to_numpy(float)
    low, high = corners.min(0), corners.max(0)
    margin = 0.04 * max(*(high - low), 1e-9)
    return low - margin, high + margin


def _pack_positions(table: pd.DataFrame, corner: np.ndarray, side: float) -> np.ndarray:
    """Return uint16 (2, n): all x, then all y, in units of the square at `corner`; points outside are at its edge."""
    scaled = (table[["x", "y"]].to_numpy(np.float32).T - corner[:, None]) / side * _UNITS
    return np.nan_to_num(scaled).round().clip(0, _UNITS).astype(np.uint16)


def _pack_facts(table: pd.DataFrame) -> bytes:
    """Return all truths and predictions as int16, then all confidences in percent as uint8."""
    percent = (100 * np.nan_to_num(table["confidence"].to_numpy(np.float32))).round().clip(0, 100)
    classes = (table[name].to_numpy(np.int16).tobytes() for name in ("truth", "predicted"))
    return b"".join(classes) + percent.astype(np.uint8).tobytes()


def pack_ids(ids: np.ndarray) -> bytes:
    """Return one bit per image id, set for those in `ids`; bit 0 of byte 0 is image 0."""
    is_in = np.zeros(int(ids.max(initial=-1)) + 1, bool)
    is_in[ids] = True
    return np.packbits(is_in, bitorder="little").tobytes() or b"\0"


def selected_ids(reported, token: str) -> np.ndarray:
    """Return the ids that the browser reports, ascending; none if they are of another map."""
    if not isinstance(reported, dict) or reported.get("token") != token or not isinstance(reported.get("bits"), str):
        return np.zeros(0, np.int64)
    text = reported["bits"]
    if len(text) > MAX_IMAGES // 6 + 4:  # six bits a letter
        return np.zeros(0, np.int64)
    try:
        bits = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    except (binascii.Error, ValueError):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))
