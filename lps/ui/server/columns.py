"""Columns of numbers that the server offers to a page as files, named by their digest, so that each is sent once.

The `data` of a component is sent again with every run of the script. The columns of a map of a million points are
megabytes, so `data` only has their URLs, and the browser caches the files.
"""

import hashlib

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from lps.ui.pictures.bounded_cache import BoundedCache
from lps.ui.server import paths

_COLUMNS = BoundedCache(128 << 20)
_CACHE_FOREVER = "private, immutable, max-age=31536000"


def route_pattern() -> str:
    """Return the URL pattern that `send_column` answers."""
    return paths.path_of("columns/{digest}.bin")


def address_of_column(data: bytes) -> str:
    """Return the URL of `data`; valid until 128 MB of other columns were stored, then the page stores it again."""
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    _COLUMNS.get(digest, lambda: data, len)
    return paths.path_of(f"columns/{digest}.bin")


def send_column(request: Request) -> Response:
    """Answer with the bytes of a digest, or with an error message."""
    try:
        data = _COLUMNS.get(request.path_params["digest"], _not_found, len)
    except LookupError:
        return PlainTextResponse("This data is no longer available. Reload the page.\n", 404)
    return Response(data, media_type="application/octet-stream", headers={"cache-control": _CACHE_FOREVER})


def _not_found() -> bytes:
    raise LookupError
