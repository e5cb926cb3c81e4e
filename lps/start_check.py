"""Whether network, pictures and start weights of a run fit, before there is a run.

    python -m lps.start_check < config.json

ends with 0, or with 2 and the sentence that says what does not fit. Pages know no torch and ask in this way (`ask`).
"""

import subprocess
import sys

from lps import datasets
from lps.background import SOURCE
from lps.config import Config
from lps.parameters import ConfigError

PATIENCE_S = 120.0


def is_needed(config: Config) -> bool:
    """Whether there is anything that only torch can judge."""
    return config.network_start == "checkpoint" or config.network_name.startswith("torchvision:")


def check(config: Config) -> None:
    """Raises `ConfigError` where network, pictures and start weights do not fit."""
    if is_needed(config):
        from lps import starts

        images = datasets.of(config).pixels
        starts.check(config, images.shape[3], *images.shape[1:3])


def ask(config: Config) -> None:
    """As `check`, in a process of its own; raises `ConfigError`."""
    if not is_needed(config):
        return
    command = [sys.executable, "-m", "lps.start_check"]
    try:
        answer = subprocess.run(
            command, input=config.to_json(), capture_output=True, text=True, cwd=SOURCE, timeout=PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # the run itself will say it
    if answer.returncode == 2:
        name, _, message = answer.stderr.strip().partition(": ")
        raise ConfigError(name, message)


if __name__ == "__main__":
    try:
        check(Config.from_json(sys.stdin.read()))
    except ConfigError as error:
        sys.exit(print(error, file=sys.stderr) or 2)
