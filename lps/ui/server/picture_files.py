"""Small single pictures of a run for the browser, made on request and cached."""

import io

import numpy as np
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from lps.datasets import Images, as_image
from lps.errors import UserError
from lps.store.run_folders import find_run
from lps.store.runs import Run
from lps.ui.pictures import kept_thumbnails, points
from lps.ui.pictures.bounded_cache import BoundedCache
from lps.ui.pictures.gallery import TINY
from lps.ui.pictures.thumbnails import fit_size
from lps.ui.server import paths
from lps.ui.shared.select import runs_root

_SIDE = 96  # pixels that a larger picture keeps
_PICTURES = BoundedCache(64 << 20)
_HEADERS = {"cache-control": "private, max-age=86400"}


def route_pattern() -> str:
    """Return the URL pattern that `send_picture` answers."""
    return paths.path_of("picture/{run}/{stamp}/{image:int}.webp")


def address_of_pictures(run: Run) -> str:
    """Return the URL of a run's pictures without its last part, such as `17.webp`; "" if they cannot be read.

    The URL changes with the split, so that a browser does not cache pictures of another data set.
    """
    try:
        points.read_pictures(run)
    except UserError:
        return ""
    return paths.path_of(f"picture/{run.id}/{points.stamp_of(run)}/")


def send_picture(request: Request) -> Response:
    """Answer with the picture of an image as WebP, or with an error message."""
    name, image = request.path_params["run"], request.path_params["image"]
    try:
        data = _PICTURES.get((name, request.path_params["stamp"], image), lambda: _encode_webp(name, image), len)
    except UserError as error:
        return PlainTextResponse(f"{error}.\n", 404)
    return Response(data, media_type="image/webp", headers=_HEADERS)


def _encode_webp(name: str, image: int) -> bytes:
    run = find_run(runs_root(), name, by_path=False)
    images = points.read_pictures(run)
    if not 0 <= image < len(images.pixels):
        raise UserError("image", f"{image} is not an image of this run; expected 0 to {len(images.pixels) - 1}")
    return make_webp(images, image)


def make_webp(images: Images, image: int) -> bytes:
    """Return the small picture of an image, which is kept on the disk."""
    key = ("file", *kept_thumbnails.key_of_image(images, image, _SIDE))
    return kept_thumbnails.keep_webp(key, lambda: _encode_picture(images, image))


def _encode_picture(images: Images, image: int) -> bytes:
    picture = as_image(np.asarray(images.pixels[image]))
    height, width = fit_size(images.sides(image), _SIDE)
    if max(picture.size) > TINY:
        picture = picture.resize((width, height))
    out = io.BytesIO()
    picture.convert("RGB").save(out, "WEBP", lossless=max(picture.size) <= TINY, quality=80)
    return out.getvalue()
