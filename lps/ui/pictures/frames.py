"""Pictures in coloured frames with captions: blue for seen, orange for novel, grey for unknown."""

import base64
import hashlib
import io
from dataclasses import dataclass
from html import escape

import numpy as np
import streamlit as st

from lps.charts.palette import DARK, LIGHT
from lps.datasets import as_image
from lps.ui.pictures.bounded_cache import BoundedCache
from lps.ui.pictures.thumbnails import fit_size

_LARGEST = 96  # pixels that a picture keeps
_DATA_URLS = BoundedCache(8_000_000)
_STYLE = f"""
.lps-frames {{ display: flex; flex-wrap: wrap; gap: 0.5rem; }}
.lps-frames + .lps-frames {{ margin-top: 0.75rem; }}
.lps-frames figure {{ margin: 0; text-align: center; line-height: 1.2; font-size: 0.875rem; }}
.lps-frames img {{ display: block; margin: auto; image-rendering: pixelated; border-radius: 0.3rem; border: 3px solid;
  border-color: light-dark({LIGHT.grid}, {DARK.grid}); }}
.lps-frames .seen img {{ border-color: light-dark({LIGHT.seen}, {DARK.seen}); }}
.lps-frames .novel img {{ border-color: light-dark({LIGHT.novel}, {DARK.novel}); }}
.lps-frames figcaption {{ padding-top: 0.2rem; opacity: 0.75; min-height: 1.2em; }}
.lps-frames p {{ flex: 0 0 7.5rem; margin: 0; align-self: center; font-size: 0.875rem; }}
@media (max-width: 640px) {{ .lps-frames p {{ flex-basis: 100%; }} }}
"""


@dataclass(frozen=True)
class Frame:
    """One picture, uint8 (height, width, channels).

    group: seen, novel, or "" for unknown; caption is shown below it. sides: height and width that give its proportions.
    """

    pixels: np.ndarray
    sides: tuple[int, int]
    group: str
    alt: str
    caption: str = ""


def show_frames(rows: list[tuple[str, list[Frame]]], size: int) -> None:
    """Show rows of pictures, each with a heading ("" for none). size: length of their longer sides in pixels."""
    st.html(f"<style>{_STYLE}</style>" + "".join(_render_row(heading, frames, size) for heading, frames in rows))


def _render_row(heading: str, frames: list[Frame], size: int) -> str:
    heading_html = f"<p>{escape(heading)}</p>" if heading else ""
    return f'<div class="lps-frames">{heading_html}{"".join(_render_frame(frame, size) for frame in frames)}</div>'


def _render_frame(frame: Frame, size: int) -> str:
    caption_html = f"<figcaption>{escape(frame.caption)}</figcaption>" if frame.caption else ""
    height, width = fit_size(frame.sides, size)
    picture = f'<img src="{_picture_url(frame.pixels)}" width="{width}" height="{height}" alt="{escape(frame.alt)}">'
    return f'<figure class="{frame.group}">{picture}{caption_html}</figure>'


def _picture_url(pixels: np.ndarray) -> str:
    """Return a picture as a data URL, cached for pages that refresh themselves."""
    pixels = np.ascontiguousarray(pixels)
    key = pixels.shape, hashlib.blake2b(pixels, digest_size=16).digest()
    return _DATA_URLS.get(key, lambda: _encode_picture(pixels), len)


def _encode_picture(pixels: np.ndarray) -> str:
    image = as_image(pixels)
    image.thumbnail((_LARGEST, _LARGEST))
    out = io.BytesIO()
    image.save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
