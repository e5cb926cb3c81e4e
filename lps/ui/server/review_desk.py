"""The server side of the page Review: sends the next pictures and records decisions.

The browser holds a few pictures and sends every decision immediately, without Streamlit: no script runs between two
pictures. Every decision has a key, so that one that is sent twice, by a second window or after a restart, counts once.
"""

import asyncio
import functools
import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from lps.analysis import labels, naming, review_order
from lps.analysis.naming import Naming
from lps.analysis.review_order import Doubts, ReviewSession
from lps.datasets import Images
from lps.errors import UserError, shorten
from lps.files import journal
from lps.store.runs import Run
from lps.ui.pictures import gallery, points
from lps.ui.pictures.bounded_cache import BoundedCache
from lps.ui.pictures.thumbnails import fit_size
from lps.ui.server import paths
from lps.ui.shared.select import find_run

_BATCH = 12  # pictures per answer
MAX_CHOICES = 5  # suggestions of a picture
_EXAMPLES = 3  # pictures of every suggestion
_LARGE, _SMALL = 320, 56  # pixels on the screen, of the longer sides
_MAX_BYTES = 1 << 20  # of a request
_MAX_AT_ONCE = 200  # decisions per request
_DESKS = BoundedCache(64 << 20)


def routes() -> list[Route]:
    """Return the URL of the desk with the function that answers it."""
    return [Route(paths.path_of("desk/{run}/{epoch:int}/{what}"), _answer_request, methods=["POST"])]


def address_of_desk(run: Run, epoch: int) -> str:
    """Return the URL of the desk of a run at an epoch, without its last part: `cards` or `decisions`."""
    return paths.path_of(f"desk/{run.id}/{epoch}")


async def _answer_request(request: Request) -> Response:
    """Answer a POST request of JSON, or return an error message."""
    act = {"cards": _make_cards, "decisions": _record_decisions}.get(request.path_params["what"])
    if act is None:
        return PlainTextResponse("Not found.\n", 404)
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MAX_BYTES:
            return PlainTextResponse(f"The request is larger than {_MAX_BYTES >> 20} MiB.\n", 413)
    try:
        request_body = json.loads(body)
    except (ValueError, RecursionError):
        request_body = None
    if not isinstance(request_body, dict):
        return PlainTextResponse("Expected an object in JSON.\n", 400)
    name, epoch = request.path_params["run"], request.path_params["epoch"]
    return await asyncio.get_running_loop().run_in_executor(
        None, functools.partial(_run_action, act, name, epoch, request_body)
    )


def _run_action(act: Callable[[Run, int, Mapping], Response], name: str, epoch: int, request_body: Mapping) -> Response:
    try:
        return act(find_run(name), epoch, request_body)
    except UserError as error:
        return PlainTextResponse(f"{error}.\n", 409)


def desk_of(run: Run, epoch: int) -> ReviewSession:
    """Return the review session of an epoch, read once and shared by all viewers; raises `UserError`."""
    key = (str(run.folder), points.stamp_of(run), points.key_of_snapshot(run, epoch))
    return _DESKS.get(key, lambda: review_order.read_review_session(run, epoch), lambda desk: desk.nbytes)


def _read_ids(value) -> set[int]:
    """Return the image ids that a browser sent; invalid ones are left out."""
    return {image for image in value if type(image) is int and 0 <= image < 2**53} if isinstance(value, list) else set()


# ---------------------------------------------------------------------------------------------------- pictures


def _make_cards(run: Run, epoch: int, request_body: Mapping) -> Response:
    """Answer with a line of JSON and two images: the pictures to decide about, and examples of their suggestions.

    request_body: `leave`, ids of images that the browser has or the user has skipped.
    """
    desk, decisions = desk_of(run, epoch), naming.naming_of_epoch(naming.read_entries(run), epoch)
    doubts = review_order.assess_doubts(desk, decisions)
    rows = doubts.next(desk.around, _read_ids(request_body.get("leave")), _BATCH)
    try:
        images = labels.load_pictures(run, desk.split, desk.targets)
    except UserError:
        images = None  # the page shows their numbers
    names = {i: labels.name_of(i, decisions, labels.default_names(run, desk.split)) for i in doubts.ids.tolist()}
    cards = [_make_card(row, desk, doubts, names) for row in rows.tolist()]
    examples = list(
        dict.fromkeys(image for card in cards for suggestion in card["suggestions"] for image in suggestion["images"])
    )
    large = _make_sheet(images, [card["image"] for card in cards], _LARGE, _LARGE)
    small = _make_sheet(images, examples, _SMALL)
    header = {
        "cards": cards,
        "names": sorted(name for i, name in names.items() if name != f"cluster {i}"),
        "waiting": int(doubts.waiting.sum()),
        **_count_decisions(decisions),
        "pixelated": images is not None and max(images.pixels.shape[1:3]) <= gallery.TINY,
        "large": large[0],
        "small": small[0],
    }
    body = json.dumps(header).encode() + b"\n" + large[1] + small[1]
    return Response(body, media_type="application/octet-stream", headers={"cache-control": "no-store"})


def _make_card(row: int, desk: ReviewSession, doubts: Doubts, names: Mapping[int, str]) -> dict:
    """Return the data of a picture with its suggestions."""
    cluster_position, believed = int(doubts.cluster_index[row]), doubts.believed[row]
    columns, total = doubts.suggestions(row, MAX_CHOICES), believed.sum()
    return {
        "image": int(desk.around.images[row]),
        "cluster": names[int(doubts.ids[cluster_position])] if cluster_position >= 0 else "none of them",
        "why": _explain_selection(
            columns, cluster_position, float(doubts.margin[row]), [names[int(doubts.ids[c])] for c in columns]
        ),
        "suggestions": [
            {
                "to": int(doubts.ids[column]),
                "name": names[int(doubts.ids[column])],
                "share": round(float(believed[column] / total), 3),
                "images": desk.around.images[
                    review_order.example_rows(row, desk.around.nearest, doubts.cluster_index == column, _EXAMPLES)
                ].tolist(),
            }
            for column in columns
        ],
    }


def _explain_selection(columns: Sequence[int], cluster_position: int, margin: float, names: Sequence[str]) -> str:
    """Explain why a picture was selected for review."""
    if margin < 0:
        return f"The most similar pictures are mostly in {names[0]}."
    other_names = [name for column, name in zip(columns, names) if column != cluster_position]
    return f"It may also belong to {other_names[0]}." if other_names else "No other cluster is close."


def _make_sheet(images: Images | None, ids: Sequence[int], edge: int, side: int | None = None) -> tuple[dict, bytes]:
    """Return (layout for cutting the pictures out, all pictures as one image file).

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
    """Record decisions in their order. request_body: `decisions`, and `held`, images that the browser still shows.

    Answers with the keys of the recorded ones (`done`) and the reasons of the invalid ones (`refused`). Raises
    `UserError` if nothing can be recorded.
    """
    decisions = request_body.get("decisions")
    if not isinstance(decisions, list) or len(decisions) > _MAX_AT_ONCE:
        raise UserError("decisions", f"expected a list of at most {_MAX_AT_ONCE}")
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
    current = naming.naming_of_epoch(naming.read_entries(run), epoch)
    decided = current.confirmed | current.classless_images
    outdated = sorted(_read_ids(request_body.get("held")) & decided)
    return JSONResponse({"done": done, "refused": refused, "gone": outdated, **_count_decisions(current)})


def _count_decisions(decisions: Naming) -> dict[str, int]:
    """Return the numbers of images that the user assigned to a cluster, and that show none of the classes."""
    return {"assigned": len(decisions.confirmed), "classless": len(decisions.classless_images)}


def _record_decision(run: Run, epoch: int, desk: ReviewSession, decision: Mapping) -> None:
    """Record one decision, or take one back; raises `UserError`."""
    if decision.get("do") == "undo":
        key = decision.get("of")
        naming.undo_entry(run, epoch, key if journal.is_key(key) else "")
        return
    steps = functools.partial(_decision_steps, decision, desk, labels.default_names(run, desk.split))
    naming.record_steps(run, epoch, steps, labels.digest_of_predictions(desk.network.predicted), decision["key"])


def _decision_steps(
    decision: Mapping, desk: ReviewSession, defaults: Mapping[int, str], decisions: Naming
) -> list[dict]:
    """Return the naming steps of a decision, for the current clusters."""
    image = decision.get("image")
    if type(image) is not int or image not in desk.split.unlabeled:
        raise UserError("image", f"{shorten(image)} is not an unlabeled image of this run")
    ids = labels.cluster_ids(decisions, desk.network.predicted, desk.split.classes.total)
    kind, assign = decision.get("do"), {"do": "assign", "images": [image]}
    if kind == "assign":
        target = decision.get("to")
        if type(target) is not int or decisions.root(target) not in ids:
            raise UserError("to", f"{shorten(target)} is not a cluster of this epoch")
        return [assign | {"to": decisions.root(target)}]
    if kind == "new":
        name = naming.clean_name(decision.get("name"))
        cluster_by_name = {labels.name_of(int(i), decisions, defaults).casefold(): int(i) for i in ids}
        if name.casefold() in cluster_by_name:
            return [assign | {"to": cluster_by_name[name.casefold()]}]
        new_id = decisions.next_id(int(ids.max()) + 1)
        split_step = {"do": "split", "images": [image], "new": new_id}
        return [split_step, {"do": "name", "id": new_id, "name": name}, assign | {"to": new_id}]
    if kind == "nothing":
        return [{"do": "nothing", "images": [image]}]
    raise UserError("do", f"{shorten(kind)} is not one of assign, new, nothing, undo")
