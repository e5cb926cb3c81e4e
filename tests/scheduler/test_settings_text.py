"""Names of stored results do not change with settings that came later."""

from pathlib import Path

from lps.scheduler import class_count, costs
from lps.settings.config import configure
from lps.studies import audit_files, search


def test_results_stored_before_a_setting_existed_are_found():
    """The names that the program gave before it knew an imbalance."""
    root, usual = Path("runs"), {"dataset.decisions": "0"}
    config = configure(usual)
    assert class_count.class_count_path(config, root).name == "digits-d289a554d01ba621.json"
    assert audit_files.audit_path(config, root).name == "digits-4d41c38b975b9377.json"
    for other in ({"split.imbalance": 5.0}, {"split.labeled_imbalance": 5.0}, {"split.imbalance_order": "seen"}):
        assert class_count.class_count_path(configure(usual | other), root) != class_count.class_count_path(
            config, root
        )


def test_the_same_search_has_the_name_that_it_had():
    assert search.read_request("digits", "lps", ["lr=0.01..0.1"]).name == "408590"


def test_an_imbalance_is_another_amount_of_work_and_other_start_weights():
    plain, unequal = configure(), configure({"split.imbalance": 50.0})
    assert costs._work_settings(plain) != costs._work_settings(unequal)
    assert costs.start_weights_key(plain) != costs.start_weights_key(unequal)
