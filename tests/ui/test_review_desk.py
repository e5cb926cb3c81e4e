"""What the page Review asks of the server: pictures as bytes, and decisions that are written once."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.applications import Starlette

from lps.analysis import naming
from lps.ui.server import review_desk
from tests.sample_runs import make_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    return make_run(tmp_path, epochs=2)


def post(run, what: str, body, epoch: int = 2) -> tuple[int, bytes]:
    """Status and body of the answer to a POST."""
    app = Starlette(routes=review_desk.routes())
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = []

    async def receive():
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message):
        sent.append(message)

    path = f"{review_desk.address_of_desk(run, epoch)}/{what}"
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [], "http_version": "1.1", "scheme": "http", "server": ("localhost", 80), "root_path": ""}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def cards(run, leave=()) -> dict:
    status, body = post(run, "cards", {"leave": list(leave)})
    head, _, rest = body.partition(b"\n")
    found = json.loads(head)
    assert status == 200 and len(rest) == found["large"]["bytes"] + found["small"]["bytes"] > 0
    return found


def decide(run, *decisions, held=()) -> dict:
    status, body = post(run, "decisions", {"decisions": list(decisions), "held": list(held)})
    assert status == 200, body
    return json.loads(body)


def said(run) -> naming.Naming:
    return naming.naming_of_epoch(naming.read_entries(run), 2)


def assign(image: int, to: int, key: str) -> dict:
    return {"key": key, "image": image, "do": "assign", "to": to}


def test_pictures_come_with_five_suggestions_and_are_not_sent_twice(run):
    first = cards(run)
    shown = [card["image"] for card in first["cards"]]
    assert len(set(shown)) == 12 == len(first["large"]["ids"]) and first["assigned"] == 0
    for card in first["cards"]:
        assert len(card["suggestions"]) == 5 and card["why"]
        assert {image for one in card["suggestions"] for image in one["images"]} <= set(first["small"]["ids"])
    assert not set(shown) & {card["image"] for card in cards(run, shown)["cards"]}


def test_a_decision_is_written_once_and_taken_back(run):
    image = cards(run)["cards"][0]["image"]
    for _ in range(2):
        answer = decide(run, assign(image, 7, "window-1-a"), held=[image, 3])
        assert answer == {"done": ["window-1-a"], "refused": {}, "gone": [image], "assigned": 1, "classless": 0}
    assert said(run).moved == {image: 7} and len(naming.read_entries(run)) == 1
    assert image not in [card["image"] for card in cards(run)["cards"]]
    undo = {"key": "window-1-b", "do": "undo", "of": "window-1-a"}
    assert decide(run, undo, undo)["assigned"] == 0 and said(run).is_empty
    assert decide(run, assign(image, 7, "window-1-a"))["assigned"] == 0, "it comes late, and again"


def test_a_new_class_is_made_once_under_one_name(run):
    images = [card["image"] for card in cards(run)["cards"]]
    for i, name in enumerate(["zebra", "Zebra ", "3"]):
        decide(run, {"key": f"window-{i}-a", "image": images[i], "do": "new", "name": name})
    assert said(run).names == {10: "zebra"} and said(run).moved == {images[0]: 10, images[1]: 10, images[2]: 3}
    assert "zebra" in cards(run)["names"]


def test_a_picture_of_nothing_is_decided_too(run):
    image = cards(run)["cards"][0]["image"]
    answer = decide(run, {"key": "window-1-a", "image": image, "do": "nothing"}, held=[image])
    assert said(run).classless_images == {image} and answer["gone"] == [image] and cards(run)["classless"] == 1


def test_two_windows_at_once_lose_nothing(run):
    images = [card["image"] for card in cards(run)["cards"]]

    def window(i: int) -> None:
        for j, image in enumerate(images[i::2]):
            decide(run, {"key": f"window-{i}-{j}", "image": image, "do": "new", "name": f"kind {i} {j}"})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(window, range(2)))
    assert said(run).confirmed == set(images) and len(set(said(run).names.values())) == 12


def test_one_that_cannot_be_is_refused_and_the_others_are_written(run):
    image = cards(run)["cards"][0]["image"]
    bad = [assign(image, 99, "window-1-a"), assign(-1, 3, "window-1-b"), {"key": "window-1-c", "image": image}]
    bad.append({"key": "window-1-d", "image": image, "do": "new", "name": " "})
    answer = decide(run, *bad, assign(image, 3, "window-1-e"))
    assert answer["done"] == ["window-1-e"] and set(answer["refused"]) == {decision["key"] for decision in bad}
    assert answer["refused"]["window-1-a"] == "to: 99 is not a cluster of this epoch"
    assert said(run).moved == {image: 3}


@pytest.mark.parametrize(
    "body, words",
    [
        (b"{", b"Expected an object in JSON"),
        (b"[" * 100_000, b"Expected an object in JSON"),
        (b" " * (1 << 21), b"larger than 1 MiB"),
        ({}, b"expected a list of at most 200"),
        ({"decisions": [{}] * 201}, b"expected a list of at most 200"),
        ({"decisions": [3]}, b"None is not a key"),
        ({"decisions": [{"key": "short"}]}, b"'short' is not a key"),
    ],
)
def test_what_no_browser_of_ours_sends_is_one_sentence(run, body, words):
    status, answer = post(run, "decisions", body)
    assert 400 <= status < 500 and words in answer and answer.count(b"\n") == 1
    assert not (run.folder / naming.FILE).exists()


def test_what_cannot_be_written_at_all_is_kept_by_the_browser(run):
    (run.folder / naming.FILE).write_bytes(b"{")
    for what in ("cards", "decisions"):
        status, answer = post(run, what, {"decisions": [assign(900, 3, "window-1-a")]})
        assert status == 409 and answer.startswith(b"names.json: is damaged and was not changed")
    assert post(run, "cards", {}, epoch=9)[0] == 409 and post(run, "anything", {})[0] == 404
