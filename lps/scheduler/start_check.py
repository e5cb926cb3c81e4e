"""Check whether network, pictures and start weights of a run fit, before the run exists.

    python -m lps.scheduler.start_check < config.json

exits with 0, or with 2 and a sentence on what does not fit. Pages do not import torch and use this process
(`check_start_in_subprocess`).
"""

import subprocess
import sys

from lps.data import sources
from lps.errors import UserError
from lps.files.program_location import SOURCE
from lps.network import shipped_weights
from lps.settings import backbone_names
from lps.settings.config import Config

_PATIENCE_S = 120.0


def _is_needed(config: Config) -> bool:
    """Return whether a check needs torch; raises `UserError` for errors found without it."""
    name = config.network_name
    if name == backbone_names.LITE0 and config.network_start == "published":  # its views accept pictures of any size
        shipped_weights.shipped_file()
        return False
    return config.network_start == "checkpoint" or ":" in name or backbone_names.usual_start(name) is not None


def check_start(config: Config) -> None:
    """Raise `UserError` if network, pictures and start weights do not fit."""
    if _is_needed(config):
        from lps.network import start_weights

        images = sources.images_of(config).pixels
        start_weights.check_start_weights(config, images.shape[3], *images.shape[1:3])


def check_start_in_subprocess(config: Config) -> None:
    """Do the same as `check_start` in a separate process; raises `UserError`."""
    if not _is_needed(config):
        return
    command = [sys.executable, "-m", "lps.scheduler.start_check"]
    try:
        completed = subprocess.run(
            command, input=config.to_json(), capture_output=True, text=True, cwd=SOURCE, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # the run itself will report it
    if completed.returncode == 2:
        name, _, message = completed.stderr.strip().partition(": ")
        raise UserError(name, message)


if __name__ == "__main__":
    try:
        check_start(Config.from_json(sys.stdin.read()))
    except UserError as error:
        sys.exit(print(error, file=sys.stderr) or 2)
