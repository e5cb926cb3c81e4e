"""Names of stored results do not change with settings that came later."""

from pathlib import Path

from lps.running import class_count
from lps.settings.config import configure
from lps.studies import audits


def test_results_stored_before_a_setting_existed_are_found():
    """The names that the program gave before it knew an imbalance."""
    root, usual = Path("runs"), {"dataset.decisions": "0"}
    config = configure(usual)
    assert class_count.path_of(config, root).name == "digits-d289a554d01ba621.json"
    assert audits.path_of(config, root).name == "digits-4d41c38b975b9377.json"
    for other in ({"split.imbalance": 5.0}, {"split.labeled_imbalance": 5.0}, {"split.imbalance_order": "seen"}):
        assert class_count.path_of(configure(usual | other), root) != class_count.path_of(config, root)
