"""Columns of numbers that the server offers to a page as files, named by their digest, so that each is sent once.

The `data` of a component is sent again with every run of the script. The columns of a map of a million points are
megabytes, so `data` only has their URLs, and the browser caches the files.
"""

import hashlib

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lps.errors import UserError
from lps.ui.pictures.bounded_cache import BoundedCache
from lps.ui.server import paths

_COLUMNS = BoundedCache(128 << 20)
_CACHE_FOREVER = "private, immutable, max-age=31536000"


def routes() -> list[Route]:
    """Return the URL of the columns with the function that answers it."""
    return [Route(paths.path_of("columns/{digest}.bin"), _send_column)]


def address_of_column(data: bytes) -> str:
    """Return the URL of `data`; valid until 128 MB of other columns were stored, then the page stores it again."""
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    _COLUMNS.get(digest, lambda: data, len)
    return paths.path_of(f"columns/{digest}.bin")


@paths.answers_errors
def _send_column(request: Request) -> Response:
    data = _COLUMNS.get(request.path_params["digest"], _not_found, len)
    return Response(data, media_type="application/octet-stream", headers={"cache-control": _CACHE_FOREVER})


def _not_found() -> bytes:
    raise UserError("data", "is no longer available; reload the page")
