"""A scrollable gallery of up to two million pictures: the browser only loads those in sight.

Ids and captions are columns (`lps.ui.server.columns`), pictures are single files (`lps.ui.server.picture_files`), so
the memory of browser and server does not grow with the number of pictures.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lps.charts.palette import DARK, LIGHT
from lps.ui.server import columns, components, presentation

_HEIGHT = 420  # pixels
_STYLE = f"""
.lps-endless {{ --lps-wrong: light-dark({LIGHT.wrong}, {DARK.wrong}); }}
{components.read_files(__file__, "scroll_gallery.css")}
"""
_mount = components.define_component(
    "lps_endless",
    components.read_files(__file__, "scroll_gallery.js"),
    _STYLE,
    '<div class="lps-endless" role="group"><div class="lps-endless-room"></div></div>',
    reports=["click", "missing"],
)


def show_gallery(
    table: pd.DataFrame,
    key: str,
    alt: str,
    names: Sequence[str],
    pictures: str,
    opened: int | None = None,
    noun: str = "Image",
) -> int | None:
    """Show the pictures of `table` (see `points.read_points`) in its order; returns the image that was clicked, if any.

    alt: what the gallery shows, for screen readers. names: of the classes. pictures: as in
    `picture_files.address_of_pictures`; "" shows only numbers. opened: the image with a frame. noun: of one.
    """
    percent = (100 * np.nan_to_num(table["confidence"].to_numpy(np.float32))).round().clip(0, 100)
    data = {
        "alt": alt,
        "noun": noun,
        "ids": columns.address_of_column(table["image"].to_numpy(np.int32).tobytes()),
        "truth": columns.address_of_column(table["truth"].to_numpy(np.int16).tobytes()),
        "predicted": columns.address_of_column(table["predicted"].to_numpy(np.int16).tobytes()),
        "confidence": columns.address_of_column(percent.astype(np.uint8).tobytes()),
        "names": list(names),
        "pictures": pictures,
        "opened": opened,
        "height": round(_HEIGHT * presentation.chart_scale()),
    }
    return components.read_id(_mount(key=key, data=data).click)
