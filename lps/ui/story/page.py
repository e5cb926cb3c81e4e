"""The Story: one idea per step with a picture; numbers are counted in the recordings. The URL stores `step`."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from lps.charts import line_charts, story_charts
from lps.charts.event_log import History
from lps.data.split import Split
from lps.datasets import Images
from lps.errors import UserError
from lps.store.runs import Run
from lps.ui.forms import demo, form
from lps.ui.pictures import coloring, frames, points, predictions
from lps.ui.pictures.frames import Frame
from lps.ui.pictures.point_map import show_map
from lps.ui.shared import escape, export_buttons, page_head, recordings, theme, url_fields
from lps.ui.shared.history import read_history
from lps.ui.shared.plot import plot
from lps.wording import capitalized

_EXAMPLES = 3  # pictures of a class
SHOWN_PICTURES = 63  # pictures of the first step
_SEED = 3  # of the choice of pictures
_SIZE = 44  # of a picture on the screen, pixels
_SWALLOWING = {"fixmatch": "FixMatch", "lps": "LPS"}
BEGINNING = 12  # epochs in which the margin matters
EQUAL_MARGIN = 0.05  # mean margins that differ by less count as equal
COLORS = ":blue[Blue]: seen, :orange[orange]: novel."


@dataclass(frozen=True)
class Scene:
    """The data of the story: the recordings by part, their split, the class of every image, and the images."""

    runs: dict[str, Run]
    split: Split
    targets: np.ndarray
    images: Images

    @property
    def seen(self) -> int:
        return self.split.classes.seen

    @property
    def names(self) -> list[str]:
        return list(self.split.class_names)

    def history(self, part: str) -> History:
        return read_history(self.runs[part])

    def frame(self, image: int, group: str, caption: str = "", alt: str = "") -> Frame:
        return Frame(self.images.pixels[image], self.images.sides(image), group, alt or f"Image {image}", caption)

    def group(self, class_id: int) -> str:
        return "seen" if class_id < self.seen else "novel"


def _load_scene() -> Scene:
    """Read the recordings; raises `UserError` if files are damaged or the pictures are not available."""
    runs = recordings.recordings_by_part()
    partition = points.read_partition(runs["lps"])
    return Scene(runs, partition.split, partition.targets, points.read_pictures(runs["lps"]))


# ---------------------------------------------------------------------------------------------------- the page


def main() -> None:
    """Draw the page."""
    reason = "Its recordings were not found"
    if recordings.has_story():
        try:
            _show_story()
            return
        except UserError as error:
            reason = capitalized(str(error))
    st.title("Story")
    st.info(escape.markdown(f"The story cannot be shown. {reason}."), icon=":material/auto_stories:")
    st.page_link("pages/explain.py", label="Explain", icon=":material/arrow_forward:")


def _show_story() -> None:
    """Show the step in the URL; raises `UserError`."""
    scene = _load_scene()
    step = min(max(url_fields.read_number("step") or 1, 1), len(STEPS))
    heading, describe, draw = STEPS[step - 1]
    with st.container(key="story"):
        text_column, picture_column = st.columns([4, 6], gap="large")
    with text_column:
        st.caption(f"Step {step} of {len(STEPS)}")
        st.title(heading, anchor=False)
        st.markdown(describe(scene))
        if describe in NOTES:
            st.caption(NOTES[describe](scene))
        page_head.begin_at_top(f"step {step}")
    with picture_column:
        draw(scene)
    _show_navigation(step)


def _show_navigation(step: int) -> None:
    """Show Back and Next, always in the same place."""
    with st.bottom, st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        _button("Back", step - 1, "Left", "secondary")
        st.progress(step / len(STEPS))
        _button("Next", step + 1, "Right", "primary")


def _button(label: str, target_step: int, arrow: str, kind: str) -> None:
    """Show a button with an arrow key as shortcut."""
    options = {"type": kind, "shortcut": arrow, "disabled": not 1 <= target_step <= len(STEPS)}
    st.button(label, key=f"story_{label.lower()}", on_click=_go_to_step, args=(target_step,), **options)


def _go_to_step(step: int) -> None:
    url_fields.set_number("step", step if step > 1 else None)


# ---------------------------------------------------------------------------------------------------- 1, 2: the task


def _tell_groups(scene: Scene) -> str:
    kind = recordings.picture_kind(scene.runs["lps"])
    return (
        f"Here are {len(scene.names)} classes of {kind}. In {scene.seen} classes, some pictures have a label, which "
        "tells the model their class: these classes are :blue[**seen**]. The other classes have no labels: they are "
        ":orange[**novel**]. The model also gets pictures of novel classes, but it is not told which pictures these "
        "are."
    )


def _draw_groups(scene: Scene) -> None:
    for group, heading in (("seen", "**Seen**: with labels"), ("novel", "**Novel**: without labels")):
        st.markdown(f":{'blue' if group == 'seen' else 'orange'}[{heading}]")
        ids = [i for i in range(len(scene.names)) if scene.group(i) == group]
        columns = [_examples(scene, class_id) for class_id in ids]
        rows = []
        for i in range(_EXAMPLES):
            rows.append(
                ("", [_example_frame(scene, int(images[i]), class_id) for class_id, images in zip(ids, columns)])
            )
        frames.show_frames(rows, _SIZE + 12)


def _example_frame(scene: Scene, image: int, class_id: int) -> Frame:
    group = scene.group(class_id)
    caption = scene.names[class_id] if group == "seen" else "?"
    return scene.frame(image, group, caption, f"A picture of a {group} class, {scene.names[class_id]}")


def _examples(scene: Scene, class_id: int) -> np.ndarray:
    """Return images of a class, (_EXAMPLES,): labeled ones of a seen class, unlabeled ones of a novel class."""
    among = scene.split.labeled if class_id < scene.seen else scene.split.unlabeled
    return np.random.default_rng([_SEED, class_id]).permutation(among[scene.targets[among] == class_id])[:_EXAMPLES]


def _tell_task(scene: Scene) -> str:
    labeled, unlabeled = len(scene.split.labeled), len(scene.split.unlabeled)
    novel = len(scene.names) - scene.seen
    return (
        f"{labeled:,} pictures of seen classes have a label. {unlabeled:,} pictures of seen and novel classes have "
        f"none. The model must sort the pictures without a label into {len(scene.names)} groups, called clusters. "
        f"{scene.seen} clusters have the name of a seen class. The model must discover the other {novel}, the new "
        "clusters. This is called *open-world semi-supervised learning*."
    )


def _note_beginning(scene: Scene) -> str:
    kmeans_accuracy = 100 * scene.history("lps").start["baseline/kmeans/all"]
    final_accuracy = {part: 100 * scene.history(part).last("accuracy/all") for part in ("lps", "fixmatch")}
    start_text = (
        "the same features, from a network that was trained with ImageNet's labels (*EfficientNet-Lite0*)"
        if recordings.are_features_stored(scene.runs["lps"])
        else "the same network, trained on these pictures but not on labels (*SimCLR*)"
    )
    return (
        f"Every run begins with {start_text}. Before training, the method *k-means* puts {kmeans_accuracy:.1f} "
        "% of the pictures without labels into the right group, but these groups have no names. After training, LPS is "
        "right on "
        f"{final_accuracy['lps']:.1f} % of these pictures and FixMatch on {final_accuracy['fixmatch']:.1f} %."
    )


def _draw_task(scene: Scene) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        shows_classes = st.toggle("Show the classes", key="story_told", help="The model is never told these classes")
        if shows_classes:
            st.caption(COLORS)
    unlabeled = np.random.default_rng(_SEED).permutation(scene.split.unlabeled)[:SHOWN_PICTURES]
    picture_frames = []
    for image in unlabeled.tolist():
        class_id = int(scene.targets[image])
        group = scene.group(class_id) if shows_classes else ""
        picture_frames.append(
            scene.frame(
                image, group, "", f"{scene.names[class_id]}, {group}" if shows_classes else "A picture without a label"
            )
        )
    frames.show_frames([("", picture_frames)], _SIZE)


# ---------------------------------------------------------------------------------------------------- 3: the trouble


def _tell_swallowed(scene: Scene) -> str:
    lost, novel = recordings.count_swallowed(scene.runs["fixmatch"])
    return (
        "FixMatch, a well-known method, learns from its own confident guesses. At first, it can be "
        "confident only of seen classes, so it takes novel pictures for seen ones. It learns from these wrong guesses "
        f"and makes more of them. At the end, it takes **{lost} of {novel}** novel pictures for seen ones. LPS takes "
        f"only {recordings.count_swallowed(scene.runs['lps'])[0]}."
    )


def _note_scoring(scene: Scene) -> str:
    novel = scene.history("fixmatch").last("accuracy/novel")
    return (
        f"Other pages show {100 * novel:.0f} % novel accuracy for FixMatch, because they count differently. There, "
        "novel pictures with the same guess form a group, even if the guess is a seen class. Each group is "
        "matched with one novel class. So if all pictures of a novel class get the same wrong guess, they can count as "
        "correct."
    )


def _draw_swallowed(scene: Scene) -> None:
    st.markdown(
        "Share of the :orange[**novel**] pictures that are taken for seen ones, after each epoch (one pass over the "
        "pictures with labels)"
    )
    shares = {label: recordings.swallowed_share_by_epoch(scene.runs[part]) for part, label in _SWALLOWING.items()}
    figure = story_charts.swallowed(shares, theme.current_palette())
    plot(figure, "story_swallowed", "The share rises for FixMatch and falls to almost nothing for LPS")
    st.markdown("Some pictures that FixMatch took for seen classes")
    frames.show_frames(_mistaken_frames(scene), _SIZE)


def _mistaken_frames(scene: Scene, rows: int = 2, max_images: int = 7) -> list[tuple[str, list[Frame]]]:
    """Return random novel images that were taken for a seen class, a row for each of the most frequent ones."""
    predicted, truth = recordings.read_predicted(scene.runs["fixmatch"]), recordings.read_truth(scene.runs["fixmatch"])
    wrong = (truth >= scene.seen) & (predicted < scene.seen)
    names = np.bincount(predicted[wrong], minlength=scene.seen).argsort()[::-1][:rows]
    rows_of_frames = []
    for name in names.tolist():
        images = scene.split.unlabeled[wrong & (predicted == name)]
        images = np.random.default_rng([_SEED, name]).permutation(images)[:max_images].tolist()
        caption = f"taken for {scene.names[name]}"
        rows_of_frames.append(
            (caption, [scene.frame(i, "novel", "", f"A {scene.names[scene.targets[i]]} {caption}") for i in images])
        )
    return rows_of_frames


# ---------------------------------------------------------------------------------------------------- 4, 5: the margin


def _tell_margin(scene: Scene) -> str:
    novel = {part: 100 * scene.history(part).last("accuracy/novel") for part in ("lps", "no_margin")}
    idle, total = recordings.empty_clusters(scene.runs["no_margin"])
    without = f" Without the margin, {idle} of the {total} clusters for novel classes are almost empty." if idle else ""
    return (
        "The model learns :blue[seen] classes first and :orange[novel] classes later. Their accuracies "
        "differ: the **gap**. The more often LPS guesses a class, the more a **margin** holds it back. At "
        f"the end, novel accuracy is {novel['lps']:.1f} % with the margin and {novel['no_margin']:.1f} % "
        f"without it.{without}"
    )


def _note_margin(scene: Scene) -> str:
    weight = scene.runs["lps"].config().hyperparameters["entropy_weight"]
    return (
        f"In both runs, the weight of the entropy term (see step 6) is {weight:g} instead of 1. With weight 1, this "
        "term does nearly the same job as the margin, so the margin has little left to do. One pair of runs is an "
        "example, not evidence. The page *When the margin helps* compares 160 runs."
    )


def _draw_margin(scene: Scene) -> None:
    st.markdown("**LPS**: accuracy on :blue[seen] and :orange[novel] classes over the epochs")
    figure = story_charts.novel_accuracies(scene.history("lps"), scene.history("no_margin"), theme.current_palette())
    plot(figure, "story_margin", "Novel accuracy comes close to seen accuracy with the margin, not without it")
    export_buttons.offer_document("when-the-margin-helps.md", "When the margin helps", "story_study")


def _tell_brake(scene: Scene) -> str:
    kl = scene.history("lps").column("kl")
    seen, novel = (line_charts.mean_margin(scene.history("lps"), group) for group in ("seen", "novel"))
    return (
        "The **KL divergence** measures how unevenly the guesses are spread. At 0, all shares are equal. "
        f"The larger KL is, the larger the margins are. In epoch {seen.index[0]}, the mean margin is "
        f"{seen.iloc[0]:.2f} for :blue[seen] and {novel.iloc[0]:.2f} for :orange[novel] classes; "
        f"{_describe_final_margins(seen, novel)}. KL goes from "
        f"{kl.iloc[0]:.2f} to {kl.iloc[-1]:.2f}, so the margin fades by itself."
    )


def _describe_final_margins(seen: pd.Series, novel: pd.Series) -> str:
    """Describe the mean margins of both groups at the end."""
    epoch = first_equal_epoch(seen, novel)
    if epoch <= seen.index[-1]:
        return f"from epoch {epoch} on, both are about equal"
    return f"at the end, it is {seen.iloc[-1]:.2f} and {novel.iloc[-1]:.2f}"


def first_equal_epoch(seen: pd.Series, novel: pd.Series) -> int:
    """Return the first epoch from which both mean margins stay about equal; the last epoch + 1 if they never do."""
    differing = seen.index[(seen - novel).abs() >= EQUAL_MARGIN]
    return int(differing[-1]) + 1 if len(differing) else int(seen.index[0])


def _note_target(scene: Scene) -> str:
    classes = len(scene.names)
    all_shares, unlabeled_shares = (
        np.bincount(scene.targets[images], minlength=classes) / len(images)
        for images in (scene.split.training, scene.split.unlabeled)
    )
    factor = unlabeled_shares[scene.seen :].mean() / unlabeled_shares[: scene.seen].mean()
    return (
        "LPS aims for equal shares, because the true ones are unknown. It estimates the current shares "
        "from labels and confident guesses. Here, all classes have nearly the same size "
        f"({100 * all_shares.min():.1f} to {100 * all_shares.max():.1f} %). A novel class has "
        f"{factor:.1f} times as many pictures without labels as a seen class. If classes differ in size, equal "
        "shares are an approximation."
    )


def _draw_brake(scene: Scene) -> None:
    st.markdown("**LPS**, the first epochs: KL, and the margins of :blue[seen] and :orange[novel] classes")
    figure = story_charts.kl_and_margins(scene.history("lps"), theme.current_palette(), BEGINNING)
    plot(figure, "story_brake", "KL and margins fall over the first epochs")
    st.caption(
        "KL and margins stay a little above 0, because they are computed for small batches of pictures. A batch is "
        "always a little uneven by chance."
    )


# ---------------------------------------------------------------------------------------------------- 6: collapse


def _tell_collapse(scene: Scene) -> str:
    sizes = recordings.cluster_sizes(scene.runs["no_entropy"])
    empty, largest = int((sizes == 0).sum()), int(sizes.max())
    novel = {part: scene.history(part).last("accuracy/novel") for part in ("lps", "no_entropy")}
    state = f"**{empty} clusters stay empty**" if empty else "the clusters become uneven"
    return (
        "Another part of LPS, the *entropy term*, makes the model use all its clusters. Without this term, the model "
        f"tends to put several novel classes into one cluster. This is called **collapse**. Here, {state}, and the "
        f"largest has {largest} pictures. Novel accuracy ends at {100 * novel['no_entropy']:.1f} % instead of "
        f"{100 * novel['lps']:.1f} %."
    )


def _draw_collapse(scene: Scene) -> None:
    expected_counts = recordings.true_cluster_sizes(scene.runs["lps"])
    counts = {part: recordings.cluster_sizes(scene.runs[part]) for part in ("no_entropy", "lps")}
    top = max(int(expected_counts.max()), *(int(count.max()) for count in counts.values()))
    names = [
        scene.names[i] if i < scene.seen else recordings.cluster_name(i, scene.seen)
        for i in range(len(expected_counts))
    ]
    st.caption(
        f"{COLORS} {names[scene.seen]} to {names[-1]} are the new clusters. Dashed: the true number of pictures."
    )
    headings = {"no_entropy": "**Without the entropy term**: pictures in each cluster", "lps": "**LPS**"}
    for part, heading in headings.items():
        st.markdown(heading)
        figure = story_charts.cluster_sizes(
            counts[part], expected_counts, scene.seen, names, top, theme.current_palette()
        )
        plot(figure, f"story_piles_{part}", f"Pictures in each cluster: {', '.join(map(str, counts[part].tolist()))}")


# ---------------------------------------------------------------------------------------------------- 7: the clusters


def _tell_clusters(scene: Scene) -> str:
    right = scene.history("lps").last("accuracy/novel")
    return (
        "Every dot is a picture. Similar pictures are close together. The model had no labels of :orange[novel] "
        f"classes, but it separated them: {100 * right:.1f} % of their pictures are in the right cluster. For the "
        "model, a cluster is only a number. You can look at a few typical pictures of a cluster and give it a name."
    )


def _draw_clusters(scene: Scene) -> None:
    run = scene.runs["lps"]
    epoch = points.stored_epochs(run)[-1]
    table = points.read_points(run, epoch, "umap")
    table = points.read_points(run, epoch) if table is None else table
    colors = coloring.color_table(table, "group", scene.seen, scene.names, theme.current_palette())
    alt = "Pictures as dots: every class, seen or novel, forms a separate group"
    show_map(table, colors, "story_map", alt, tuple(scene.names), height=300)
    st.markdown("The most confident pictures in each new cluster")
    frames.show_frames(_typical_frames(scene, run), _SIZE)


def _typical_frames(scene: Scene, run: Run, max_images: int = 5) -> list[tuple[str, list[Frame]]]:
    assignment = predictions.read_assignment(run, points.stored_epochs(run)[-1])
    rows = []
    for i in range(scene.seen, len(scene.names)):
        members = np.flatnonzero(assignment.predicted == i)
        sure = members[np.argsort(-assignment.confidence[members], kind="stable")][:max_images]
        images = scene.split.unlabeled[sure].tolist()
        caption = f"{recordings.cluster_name(i, scene.seen)}: {len(members)} pictures"
        rows.append(
            (caption, [scene.frame(image, "novel", "", f"Picture {image} in cluster {caption}") for image in images])
        )
    return rows


# ---------------------------------------------------------------------------------------------------- 8: what next


def _tell_next(scene: Scene) -> str:
    return (
        "Now you know what happens when a model meets classes without labels. Try it yourself. Every run in this "
        "story was trained on an ordinary computer without a graphics card. Each link opens a page for one idea; the "
        "forms are already filled in."
    )


def _note_comparing(scene: Scene) -> str:
    weight = demo.SETTINGS["entropy_weight"]
    return (
        "The first two links repeat the recorded LPS run with one changed setting. Like the demo on Home, they use "
        f"an entropy weight of {weight:g}. You can compare your run with *LPS (recorded)* on Race and on "
        "Compare (under Analyze). One run may be luck. To check this, enter several seeds in the form; each seed "
        "starts one run."
    )


def _draw_next(scene: Scene) -> None:
    runs = {part: run.id for part, run in scene.runs.items()}
    race_query = {"run": [runs[part] for part in ("lps", "no_margin", "fixmatch")]}
    links = [
        ("No margin", "Switch the margin off. Do new clusters stay empty? With how many seeds does this happen?",
         "pages/launch.py", "Launch", form.link_to_draft(form.Draft(texts=demo.setting_texts(use_margin="false")))),
        ("A larger margin", "Make the margin three times as large. Does the model learn novel digits sooner? Does it "
                            "learn seen digits worse?",
         "pages/launch.py", "Launch", form.link_to_draft(form.Draft(texts=demo.setting_texts(margin_scale="30")))),
        ("Change the shares yourself", "Move the sliders of the class shares and watch KL and the margins.",
         "pages/explain.py", "Explain",
         {"from": "run", "run": runs["lps"]}),
        ("Side by side", "Watch the runs of this story as a race.", "pages/pace.py", "Race", race_query),
        ("Look into the clusters", "See every picture, and when the prediction for it changed.",
         "pages/clusters.py", "Clusters",
         {"run": runs["lps"]}),
        ("Your pictures", "You need a folder in which some pictures are sorted by class.",
         "pages/own.py", "Add pictures", {}),
    ]  # fmt: skip
    with st.grid(columns="auto", min_column_width=210, gap="small"):
        for title, text, page, label, query in links:
            with st.container(border=True, height="stretch", gap="xsmall"):
                st.markdown(f"**{title}**")
                st.markdown(f":small[{text}]")
                st.page_link(page, label=label, icon=":material/arrow_forward:", query_params=query)


_TextFunction = Callable[[Scene], str]
STEPS: tuple[tuple[str, _TextFunction, Callable[[Scene], None]], ...] = (
    ("Some classes have labels, others do not", _tell_groups, _draw_groups),
    ("Pictures without labels", _tell_task, _draw_task),
    ("Novel pictures are taken for seen ones", _tell_swallowed, _draw_swallowed),
    ("The margin holds fast classes back", _tell_margin, _draw_margin),
    ("The margin fades by itself", _tell_brake, _draw_brake),
    ("Without the entropy term, classes merge", _tell_collapse, _draw_collapse),
    ("What the model found", _tell_clusters, _draw_clusters),
    ("Your turn", _tell_next, _draw_next),
)
NOTES: dict[_TextFunction, _TextFunction] = {  # the small text below a step's text
    _tell_task: _note_beginning,
    _tell_swallowed: _note_scoring,
    _tell_margin: _note_margin,
    _tell_brake: _note_target,
    _tell_next: _note_comparing,
}
