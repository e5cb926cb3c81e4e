"""The page Review: a run and an epoch, then picture after picture.

The URL stores run and epoch. The pictures are a component in the browser, which exchanges data with
`lps.ui.server.review_desk` directly.
"""

from contextlib import suppress

import streamlit as st

from lps.analysis import naming
from lps.analysis.review_order import NEIGHBOURS
from lps.charts.palette import DARK, LIGHT
from lps.errors import UserError
from lps.store.runs import Run
from lps.ui.pictures import nouns, points, predictions
from lps.ui.server import components, review_desk
from lps.ui.shared import epoch_choice, escape, page_head, run_actions, select
from lps.wording import counted

_MAX_MIXED = 3  # clusters that are offered
_EXAMPLES = "The small images beside a cluster are unlabeled images in it, the most similar to the large image first."
_ABOUT_SHARES = (
    "The percentage differs from the confidence on Clusters: half of it is this confidence, half is the share of the "
    f"{NEIGHBOURS} most similar images that are in the cluster now. Only the {review_desk.MAX_CHOICES} likeliest "
    "clusters are listed; to choose another class, press New and type its name."
)

_mount = components.define_component(
    "lps_deck",
    components.read_files(__file__, "outbox.js", "deck.js"),
    components.read_files(__file__, "deck.css").replace("WRONG", f"{LIGHT.wrong}, {DARK.wrong}"),
    '<div class="lps-deck"></div>',
)


def main() -> None:
    """Draw the page."""
    message = "No run has predictions yet. They appear after the first epoch of training."
    runs = page_head.begin_page_with("Review", points.stored_epochs, message, ":material/checklist:")
    if runs:
        _show_review(runs)


def _show_review(runs: list[Run]) -> None:
    left, right = st.columns(2, gap="medium", vertical_alignment="bottom")
    with left:
        run = select.pick_run(runs)
    try:
        stored = points.stored_epochs(run)
        named = set(naming.named_epochs(naming.read_entries(run))) & set(stored)
        with right:
            epoch = epoch_choice.pick_epoch("review", run, stored, max(named, default=stored[-1]))
        desk = review_desk.desk_of(run, epoch)
    except UserError as error:
        st.error(escape.sentence(error), icon=":material/broken_image:")
        return
    about = {
        "address": review_desk.address_of_desk(run, epoch),
        "readonly": run.is_recorded,
        "noun": nouns.of(run)("Image"),
    }
    _mount(key="deck", data=about | {"empty": nouns.of(run)("You have decided on all pictures.")})
    shown = f"{len(desk.rows):,} of " if len(desk.rows) < len(desk.split.unlabeled) else ""
    number = f"Reviewed here: {shown}{desk.split.pictures_in_words(nouns.of(run)('image'))}."
    st.caption(f"{number} {nouns.of(run)(_EXAMPLES)}", help=nouns.of(run)(_ABOUT_SHARES))
    _explain_review(run, epoch)


def _explain_review(run: Run, epoch: int) -> None:
    """Explain the order of the pictures, the keys, and where decisions are shown."""
    if run.is_recorded:
        run_actions.offer_copy(run, "decide")
        return
    st.caption(
        nouns.of(run)(
            "Pictures come first if their most similar pictures are in another cluster: your decisions about them help "
            "most. Two similar pictures never follow each other."
        )
    )
    with st.container(key="review_keys"):  # which a phone does not have (deck.css)
        st.caption('Keys: 1 to 5 choose a class, N types a class name, X says "none of these", S skips, U undoes.')
    query = {"run": run.id, "epoch": str(epoch)}
    label = "See your decisions on Clusters"
    st.page_link("pages/clusters.py", label=label, icon=":material/arrow_forward:", query_params=query)
    _offer_splits(run, epoch, query)


def _offer_splits(run: Run, epoch: int, query: dict[str, str]) -> None:
    """Offer to split clusters that look mixed, the largest first: one split decides about many pictures."""
    with suppress(UserError):  # the deck shows the error
        view = predictions.read_view(run, epoch)
        mixed = sorted((c for c in view.clusters if "mixed" in c.flags), key=lambda cluster: -cluster.size)
        if not mixed:
            return
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption("These clusters look mixed. Split them into two or three parts:", width="content")
            for cluster in mixed[:_MAX_MIXED]:
                label = escape.markdown(f"{view.name(cluster.id)}, {counted(cluster.size, nouns.of(run)('picture'))}")
                address = query | {"cluster": str(cluster.id)}
                st.page_link("pages/clusters.py", label=label, icon=":material/call_split:", query_params=address)
