"""Small single pictures of a run for the browser, made on request and cached."""

import io

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lps.datasets import Images, as_image
from lps.errors import UserError
from lps.store.runs import Run
from lps.ui.pictures import kept_thumbnails, points
from lps.ui.pictures.bounded_cache import BoundedCache
from lps.ui.pictures.gallery import TINY
from lps.ui.pictures.thumbnails import fit_size
from lps.ui.server import paths
from lps.ui.shared.select import find_run

_SIDE = 96  # pixels that a larger picture keeps
_PICTURES = BoundedCache(64 << 20)
_HEADERS = {"cache-control": "private, max-age=86400"}


def routes() -> list[Route]:
    """Return the URL of the pictures with the function that answers it."""
    return [Route(paths.path_of("picture/{run}/{stamp}/{image:int}.webp"), _send_picture)]


def address_of_pictures(run: Run) -> str:
    """Return the URL of a run's pictures without its last part, such as `17.webp`; "" if they cannot be read.

    The URL changes with the split, so that a browser does not cache pictures of another data set.
    """
    try:
        points.read_pictures(run)
    except UserError:
        return ""
    return paths.path_of(f"picture/{run.id}/{points.stamp_of(run)}/")


@paths.answers_errors
def _send_picture(request: Request) -> Response:
    name, image = request.path_params["run"], request.path_params["image"]
    data = _PICTURES.get((name, request.path_params["stamp"], image), lambda: _encode_webp(name, image), len)
    return Response(data, media_type="image/webp", headers=_HEADERS)


def _encode_webp(name: str, image: int) -> bytes:
    images = points.read_pictures(find_run(name))
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
