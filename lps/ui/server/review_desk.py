"""What the page Review asks of the server while a person decides: the next pictures, and where decisions are written.

A browser holds some pictures, and sends every decision at once, besides Streamlit: no script runs between two pictures.
What was decided has a key, so that a decision that is sent twice, by a second window or after a restart, counts once.
"""

import asyncio
import functools
import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from lps.analysis import labels, naming, review_order
from lps.analysis.naming import Naming
from lps.analysis.review_order import Doubts, ReviewSession
from lps.datasets import Images
from lps.errors import UserError, shorten
from lps.files import journal
from lps.files.atomic import fingerprint
from lps.store.run_folders import find_run
from lps.store.runs import Run
from lps.ui.pictures import gallery
from lps.ui.pictures.bounded_cache import BoundedCache
from lps.ui.pictures.thumbnails import fit_size
from lps.ui.server import paths
from lps.ui.shared.select import runs_root

_BATCH = 12  # pictures that are sent at once
_CHOICES = 5  # suggestions of a picture
_EXAMPLES = 3  # pictures of every suggestion
_LARGE, _SMALL = 320, 56  # pixels on the screen, of the longer sides
_MOST_BYTES = 1 << 20  # of what is asked
_MOST_AT_ONCE = 200  # decisions
_DESKS = BoundedCache(64 << 20)


def route_pattern() -> str:
    """The addresses that `answer_request` answers."""
    return paths.path_of("desk/{run}/{epoch:int}/{what}")


def address_of_desk(run: Run, epoch: int) -> str:
    """Where the pictures and decisions of a run at an epoch are, without the last word: `cards` or `decisions`."""
    return paths.path_of(f"desk/{run.id}/{epoch}")


async def answer_request(request: Request) -> Response:
    """To a POST of JSON: what was asked for, or one sentence."""
    act = {"cards": _make_cards, "decisions": _record_decisions}.get(request.path_params["what"])
    if act is None:
        return PlainTextResponse("Not found.\n", 404)
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            return PlainTextResponse(f"The request is larger than {_MOST_BYTES >> 20} MiB.\n", 413)
    try:
        request_body = json.loads(body)
    except (ValueError, RecursionError):
        request_body = None
    if not isinstance(request_body, dict):
        return PlainTextResponse("Expected an object in JSON.\n", 400)
    name, epoch = request.path_params["run"], request.path_params["epoch"]
    return await asyncio.get_running_loop().run_in_executor(
        None, functools.partial(_carry_out, act, name, epoch, request_body)
    )


def _carry_out(act: Callable[[Run, int, Mapping], Response], name: str, epoch: int, request_body: Mapping) -> Response:
    try:
        return act(find_run(runs_root(), name, by_path=False), epoch, request_body)
    except UserError as error:
        return PlainTextResponse(f"{error}.\n", 409)


def desk_of(run: Run, epoch: int) -> ReviewSession:
    """Read once and shared by all viewers; raises `UserError`."""
    stamps = (fingerprint(run.folder / "split.npz"), fingerprint(run.snapshots / f"epoch-{epoch:04d}.npz"))
    key = (str(run.folder), epoch, stamps)
    return _DESKS.get(key, lambda: review_order.read_review_session(run, epoch), lambda desk: desk.nbytes)


def _read_ids(value) -> set[int]:
    """Image ids as a browser sends them; what is none is left out."""
    return {image for image in value if type(image) is int and 0 <= image < 2**53} if isinstance(value, list) else set()


# ---------------------------------------------------------------------------------------------------- pictures


def _make_cards(run: Run, epoch: int, request_body: Mapping) -> Response:
    """One line of JSON, then two images: the pictures to decide about, and the examples of their suggestions.

    request_body: `leave`, ids of images that the browser has or a person has skipped.
    """
    desk, decisions = desk_of(run, epoch), naming.naming_of_epoch(naming.read_entries(run), epoch)
    doubts = review_order.assess_doubts(desk, decisions)
    rows = doubts.next(desk.around, _read_ids(request_body.get("leave")), _BATCH)
    try:
        images = labels.load_pictures(run, desk.split, desk.targets)
    except UserError:
        images = None  # they are shown by their numbers
    names = {i: labels.name_of(i, decisions, labels.default_names(run, desk.split)) for i in doubts.ids.tolist()}
    cards = [_make_card(row, desk, doubts, names) for row in rows.tolist()]
    examples = list(dict.fromkeys(image for card in cards for one in card["suggestions"] for image in one["images"]))
    large, small = (
        _make_sheet(images, [card["image"] for card in cards], _LARGE, _LARGE),
        _make_sheet(images, examples, _SMALL),
    )
    head = {
        "cards": cards,
        "names": sorted(name for i, name in names.items() if name != f"cluster {i}"),
        "waiting": int(doubts.waiting.sum()),
        "confirmed": len(decisions.confirmed | decisions.nothing),
        "pixelated": images is not None and max(images.pixels.shape[1:3]) <= gallery.TINY,
        "large": large[0],
        "small": small[0],
    }
    body = json.dumps(head).encode() + b"\n" + large[1] + small[1]
    return Response(body, media_type="application/octet-stream", headers={"cache-control": "no-store"})


def _make_card(row: int, desk: ReviewSession, doubts: Doubts, names: Mapping[int, str]) -> dict:
    """A picture with what it may be."""
    image, cluster_position, believed = int(desk.around.images[row]), int(doubts.here[row]), doubts.believed[row]
    columns, total = doubts.suggestions(row, _CHOICES), believed.sum()
    return {
        "image": image,
        "cluster": names[int(doubts.ids[cluster_position])] if cluster_position >= 0 else "none of them",
        "why": _explain_card(
            columns, cluster_position, float(doubts.margin[row]), [names[int(doubts.ids[c])] for c in columns]
        ),
        "suggestions": [
            {
                "to": int(doubts.ids[column]),
                "name": names[int(doubts.ids[column])],
                "share": round(float(believed[column] / total), 3),
                "images": desk.around.images[
                    review_order.example_rows(row, desk.around.nearest, doubts.here == column, _EXAMPLES)
                ].tolist(),
            }
            for column in columns
        ],
    }


def _explain_card(columns: Sequence[int], cluster_position: int, margin: float, names: Sequence[str]) -> str:
    """Why a picture is asked about."""
    if margin < 0:
        return f"The most similar pictures are mostly in {names[0]}."
    others = [name for column, name in zip(columns, names) if column != cluster_position]
    return f"It may also be {others[0]}." if others else "No other cluster is close."


def _make_sheet(images: Images | None, ids: Sequence[int], edge: int, side: int | None = None) -> tuple[dict, bytes]:
    """(what a browser needs to cut the pictures out, all of them as one image file).

    edge: pixels on the screen of their longer sides; side: as of `gallery.make_contact_sheet`.
    """
    if images is None or not ids:
        return {"ids": list(ids), "sides": [(edge, edge)] * len(ids), "columns": 1, "mime": "", "bytes": 0}, b""
    data, mime = gallery.make_contact_sheet(images.pixels[np.array(ids)], side)
    sides = [fit_size(images.sides(image), edge) for image in ids]
    return {
        "ids": list(ids), "sides": sides, "columns": gallery.count_columns(len(ids)), "mime": mime, "bytes": len(data)
    }, data  # fmt: skip


# ---------------------------------------------------------------------------------------------------- decisions


def _record_decisions(run: Run, epoch: int, request_body: Mapping) -> Response:
    """Write decisions down, in their order. request_body: `decisions`, and `held`, images that the browser still shows.

    Answers with the keys of those that are `done`, and why others are `refused` for good; what cannot be written at all
    is a refusal of the whole.
    """
    decisions = request_body.get("decisions")
    if not isinstance(decisions, list) or len(decisions) > _MOST_AT_ONCE:
        raise UserError("decisions", f"expected a list of at most {_MOST_AT_ONCE}")
    desk = desk_of(run, epoch)
    done, refused = [], {}
    for decision in decisions:
        key = decision.get("key") if isinstance(decision, dict) else None
        if not journal.is_key(key):
            raise UserError("decisions", f"{shorten(key)} is not a key of 8 to 64 letters, digits and hyphens")
        try:
            _record_decision(run, epoch, desk, decision)
            done.append(key)
        except UserError as error:
            if error.name in ("run", naming.FILE):
                raise
            refused[key] = str(error)
    said = naming.naming_of_epoch(naming.read_entries(run), epoch)
    decided = said.confirmed | said.nothing
    gone = sorted(_read_ids(request_body.get("held")) & decided)
    return JSONResponse({"done": done, "refused": refused, "gone": gone, "confirmed": len(decided)})


def _record_decision(run: Run, epoch: int, desk: ReviewSession, decision: Mapping) -> None:
    """Record one decision, or take one back; raises `UserError`."""
    if decision.get("do") == "undo":
        of = decision.get("of")
        naming.undo_entry(run, epoch, of if journal.is_key(of) else "")
        return
    steps = functools.partial(_decision_steps, decision, desk, labels.default_names(run, desk.split))
    naming.record_steps(run, epoch, steps, labels.digest_of_predictions(desk.network.predicted), decision["key"])


def _decision_steps(
    decision: Mapping, desk: ReviewSession, defaults: Mapping[int, str], decisions: Naming
) -> list[dict]:
    """What a decision says of the clusters as they are now."""
    image = decision.get("image")
    if type(image) is not int or image not in desk.split.unlabeled:
        raise UserError("image", f"{shorten(image)} is not an unlabeled image of this run")
    ids = labels.cluster_ids(decisions, desk.network.predicted, desk.split.classes.total)
    kind, new, assign = decision.get("do"), decisions.next_id(int(ids.max()) + 1), {"do": "assign", "images": [image]}
    if kind == "assign":
        to = decision.get("to")
        if type(to) is not int or decisions.root(to) not in ids:
            raise UserError("to", f"{shorten(to)} is not a cluster of this epoch")
        return [assign | {"to": decisions.root(to)}]
    if kind == "new":
        name = naming.clean_name(decision.get("name"))
        known = {labels.name_of(int(i), decisions, defaults).casefold(): int(i) for i in ids}
        if name.casefold() in known:
            return [assign | {"to": known[name.casefold()]}]
        made = {"do": "split", "images": [image], "new": new}
        return [made, {"do": "name", "id": new, "name": name}, assign | {"to": new}]
    if kind == "nothing":
        return [{"do": "nothing", "images": [image]}]
    raise UserError("do", f"{shorten(kind)} is not one of assign, new, nothing, undo")
