"""A chart as the dictionary that plotly.js draws, built without plotly's checks: they take most of the time of a page.

`Chart.figure` gives the same chart as a checked `plotly.graph_objects.Figure`; the tests compare both.
"""

import base64
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import plotly
import plotly.graph_objects as go
import plotly.io

LIBRARY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
# Types of arrays that plotly.js reads in binary.
_TYPES = "int8 int16 int32 uint8 uint16 uint32 float32 float64".split()


@cache
def read_library() -> bytes:
    """Return plotly.js, changed so that it writes "75 %" as our texts do; no setting of plotly does that."""
    return LIBRARY.read_bytes().replace(b'percent===void 0?"%"', b'percent===void 0?"\\xa0%"')


class Chart:
    """Traces and layout as in https://plotly.com/javascript/reference, arrays as NumPy; entries of None are left out.

    The update methods merge their arguments into the layout, level by level.
    """

    def __init__(self, layout: Mapping):
        self.traces: list[dict] = []
        self.layout = dict(layout)

    @property
    def height(self) -> float:
        """Height in pixels."""
        return self.layout["height"]

    def add_trace(self, type: str = "scatter", **trace) -> None:
        self.traces.append({"type": type} | trace)

    def update_layout(self, **layout) -> "Chart":
        self.layout = _merge(self.layout, layout)
        return self

    def update_xaxes(self, **axis) -> "Chart":
        return self._update_axes("x", axis)

    def update_yaxes(self, **axis) -> "Chart":
        return self._update_axes("y", axis)

    def add_shape(self, **shape) -> None:
        self.layout["shapes"] = [*self.layout.get("shapes", ()), shape]

    def add_annotation(self, **annotation) -> None:
        self.layout["annotations"] = [*self.layout.get("annotations", ()), annotation]

    def add_upright(self, x: float, line: dict) -> None:
        """Add a vertical line over the whole height."""
        self.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, yref="y domain", line=line)

    def to_json(self) -> str:
        """Return the JSON for plotly.js: arrays in binary, text safe within a script."""
        return plotly.io.to_json(_encode({"data": self.traces, "layout": self.layout}), validate=False)

    def figure(self) -> go.Figure:
        """Return the chart as a figure that plotly has checked; raises plotly's `ValueError` for an invalid entry."""
        return go.Figure(data=self.traces, layout=self.layout)

    def _update_axes(self, letter: str, axis: dict) -> "Chart":
        return self.update_layout(**{name: axis for name in self.layout if re.fullmatch(rf"{letter}axis\d*", name)})


def _merge(old: Mapping, new: Mapping) -> dict:
    nested = {
        key: _merge(old[key], new[key]) for key in old if all(isinstance(d.get(key), Mapping) for d in (old, new))
    }
    return {**old, **new, **nested}


def _encode(value):
    if isinstance(value, Mapping):
        return {key: _encode(part) for key, part in value.items() if part is not None}
    if isinstance(value, list | tuple):
        return [_encode(part) if isinstance(part, Mapping | np.ndarray) else part for part in value]
    return _encode_array(value) if isinstance(value, np.ndarray) else value


def _encode_array(values: np.ndarray) -> dict | list:
    """Return an array in binary if plotly.js supports the type, otherwise as a list."""
    if values.size and values.dtype == np.int64:
        fitting_types = (kind for kind in (np.int8, np.int16, np.int32) if (values.astype(kind) == values).all())
        values = values.astype(next(fitting_types, np.int64))
    if not values.size or values.dtype.name not in _TYPES:
        return values.tolist()
    encoded = {"dtype": values.dtype.str[1:], "bdata": base64.b64encode(np.ascontiguousarray(values)).decode()}
    return encoded | ({"shape": ", ".join(map(str, values.shape))} if values.ndim > 1 else {})
