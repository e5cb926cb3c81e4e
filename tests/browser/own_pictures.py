"""A user with own pictures in a browser: an app with empty caches, and named clusters."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.browser.conftest import Studio, come_to_rest
from tests.browser.hand import Hand
from tests.servers import Server

TRAIN_MS = 400_000  # on busy cores; half a minute on quiet ones
HOME = "home"  # in the place, with what the person has


@contextmanager
def studio_of_a_person(place: Path) -> Iterator[Studio]:
    """The app as a fresh clone has it, for a person whose home, caches, pictures and decisions are in `place`."""
    own = {name: str(place / name.lower()) for name in ("HOME", "LPS_CACHE", "LPS_PICTURES", "LPS_DECISIONS")}
    (place / HOME).mkdir(exist_ok=True)
    with Server.of_app(place / "runs", place / "log.txt", **own).answering() as server:
        yield Studio(server.address, place / "runs")


def name_in_turn(hand: Hand, names: Sequence[str]) -> None:
    """On Clusters, where every name that is given leads to the next cluster without one."""
    for number, name in enumerate(names, start=1):
        come_to_rest(hand.page)
        field = hand.page.get_by_label("Name", exact=True)
        if not field.evaluate("(one) => one === document.activeElement"):
            hand.click(field)  # in turn it has the keyboard, but on a busy machine not at once
        hand.type(name)
        hand.page.get_by_text(f"{number} named by you").wait_for()
