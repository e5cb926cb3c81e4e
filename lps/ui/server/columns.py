"""Columns of numbers that a page gives its browser as files: under their digest, so that each is sent once.

What a part of a page is told (`data`) is sent again with every run of the script. The columns of a map of a million
points are megabytes: the part is told their addresses, and the browser keeps the files.
"""

import hashlib

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from lps.ui.pictures.bounded_cache import BoundedCache
from lps.ui.server import paths

_COLUMNS = BoundedCache(128 << 20)
_FOR_GOOD = "private, immutable, max-age=31536000"


def route_pattern() -> str:
    """The addresses that `send_column` answers."""
    return paths.path_of("columns/{digest}.bin")


def address_of_column(data: bytes) -> str:
    """Where a browser finds `data`, at least until 128 MB of others were asked for; the page then offers them anew."""
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    _COLUMNS.get(digest, lambda: data, len)
    return paths.path_of(f"columns/{digest}.bin")


def send_column(request: Request) -> Response:
    """The bytes of a digest, or one sentence."""
    try:
        data = _COLUMNS.get(request.path_params["digest"], _not_found, len)
    except LookupError:
        return PlainTextResponse("This data is no longer available. Reload the page.\n", 404)
    return Response(data, media_type="application/octet-stream", headers={"cache-control": _FOR_GOOD})


def _not_found() -> bytes:
    raise LookupError
