"""Recordings on the pages: the gallery of a fresh installation, the story, and that they are for looking at only."""

import re
from functools import cache
from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from lps.charts import drawings
from lps.charts.palette import LIGHT
from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store import run_folders
from lps.store.run_folders import recorded_runs
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split
from lps.ui.explain import distribution
from lps.ui.forms import demo
from lps.ui.home import recordings_gallery
from lps.ui.shared import recordings, select
from lps.ui.shared.history import read_history
from lps.ui.story import page as story
from tests import sample_runs
from tests.interop.test_recording import digest
from tests.shares import in_turn
from tests.visiting import charts_of, visit

LPS = next(run.id for run in recorded_runs() if run.title == "LPS")
EPOCHS = recorded_runs()[0].config().epochs
PHOTOGRAPHS = ["Photographs: LPS", "Photographs: no margin"]
UNEQUAL = ["Unequal sizes: equal prior", "Unequal sizes: estimated prior"]
NAMES = ["LPS", "LPS without margin", *PHOTOGRAPHS, "FixMatch", "ORCA", "LPS without entropy", *UNEQUAL]


@pytest.fixture(scope="module")
def unchanged_recordings():
    """After all tests of this file the recordings are what they were before."""
    folder, before = run_folders.RECORDED, digest(run_folders.RECORDED)
    yield
    assert digest(folder) == before


@pytest.fixture
def root(tmp_path, monkeypatch, unchanged_recordings):
    """An empty folder of runs."""
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def texts(at) -> str:
    return "\n".join(element.value for element in [*at.markdown, *at.caption]).replace("\\", "").replace("\u00a0", " ")


def named(name: str) -> Run:
    return next(run for run in recorded_runs() if run.title == name)


@cache
def story_step(step: int):
    """A page of the story, for those who only look at it."""
    return visit("story", step=str(step))


def _height(path: str) -> float:
    """How far an area of a picture reaches from top to bottom where it is widest, taken at its corners by place."""
    found = [tuple(map(float, pair.split())) for pair in re.search(r'd="M([^Z]+)Z', path)[1].split("L")]
    across = {x for x, _ in found}
    return max(max(y for x, y in found if x == at) - min(y for x, y in found if x == at) for at in across)


def counts(run: Run) -> tuple[int, int, list[int]]:
    """Novel images under a seen id, all novel images, and the size of every cluster at the last epoch: one by one."""
    split, targets = read_split(run.folder)
    seen = split.classes.seen
    lost, novel, sizes = 0, 0, [0] * split.classes.total
    for image, predicted in zip(split.unlabeled, read_snapshot(run.snapshots, EPOCHS).predicted):
        sizes[predicted] += 1
        novel += targets[image] >= seen
        lost += targets[image] >= seen > predicted
    return int(lost), int(novel), sizes


def test_a_fresh_installation_shows_the_gallery_beside_the_demo(root):
    at = visit()
    shown = texts(at)
    for name in NAMES:
        assert f"**{name}**" in shown
    assert [button.label for button in at.button] == ["Start the demo"] and not at.menu_button
    assert "No runs yet." in shown
    assert [word.value for word in at.subheader] == ["Recorded runs", "Runs"]
    assert [link.proto.query_string for link in at.page_link if link.label == "Open"][0] == f"run={LPS}"


def test_own_runs_come_first_and_a_small_gallery_below_them(root):
    own = sample_runs.make_run(root, "finished", name="mine")
    at = visit()
    assert [button.key for button in at.menu_button] == [f"menu-{own.id}"]
    assert [word.value for word in at.subheader] == ["Runs", "Recorded runs"] and not at.expander
    shown, links = texts(at), [link.label for link in at.page_link]
    assert all(f"**{name}**" in shown for name in NAMES) and recordings_gallery._describe_run(named("LPS")) not in shown
    assert {"Read the story", "The story of these runs", "Watch runs side by side"} <= set(links)


def test_a_pair_shows_what_a_prior_does_with_unequal_classes(root):
    at = visit()
    shown, runs = texts(at), [named(name) for name in UNEQUAL]
    assert [run.config().prior for run in runs] == ["uniform", "confident"]
    for run in runs:
        split, targets = read_split(run.folder)
        sizes = np.bincount(targets[split.training], minlength=10)
        assert sizes.max() >= 9 * sizes.min()
        total, novel = (100 * read_history(run).last(f"accuracy/{name}") for name in ("all", "novel"))
        assert f"prior = {run.config().prior} says" in shown
        assert f"{total:.0f} % on all classes and {novel:.0f} % on novel" in shown
    (link,) = [link for link in at.page_link if "unequal size" in link.label]
    assert all(run.id in link.proto.query_string for run in runs)
    flat = [{k: v for k, v in run.config().flat().items() if k != "prior"} for run in runs]
    assert flat[0] == flat[1], "nothing else differs"


@pytest.mark.parametrize("leader, other", [("seen", "novel"), ("novel", "seen")])
def test_the_gap_on_a_card_has_the_colour_of_who_is_ahead(leader, other):
    values = {leader: [0.9, 0.95], other: [0.5, 0.6]}
    paths = drawings.gap(values["seen"], values["novel"], LIGHT).split("<path")
    heights = {name: _height(next(p for p in paths if f'Z" fill="{getattr(LIGHT, name)}"' in p)) for name in values}
    assert heights[leader] > 0 == heights[other]


@pytest.mark.slow
def test_home_draws_what_was_measured_and_tells_it_in_sentences(root):
    shown = texts(visit())
    gap, end = read_history(named("LPS")).column("accuracy/gap"), read_history(named("LPS")).last("accuracy/novel")
    assert "sketch" not in shown
    assert f"never more than {100 * gap.max():.0f} points" in shown and f"At the end, it is {100 * end:.0f} %." in shown
    novel = 100 * read_history(named("LPS without margin")).last("accuracy/novel")
    assert f"Without the margin, novel accuracy is {novel:.0f} % at the end" in shown
    assert f"{100 * end:.0f} % with the margin and {novel:.0f} % without" in shown
    for name in ("ORCA", "FixMatch"):
        lost, novel, _ = counts(named(name))
        assert f"{lost} of {novel} novel pictures" in shown
    assert f"{counts(named('LPS without entropy'))[2].count(0)} of 10 clusters are empty" in shown


def test_the_dotted_line_of_homes_picture_is_the_run_without_the_margin():
    drawn = drawings.gap([0.9, 1.0], [0.5, 0.9], LIGHT, other_novel=[0.5, 0.25])
    (dotted,) = (part for part in drawn.split("<path") if "stroke-dasharray" in part)
    assert 'd="M6.0 60.0L314.0 87.0"' in dotted and LIGHT.novel in dotted, "half and a quarter of 108 pixels above 114"
    assert "stroke-dasharray" not in drawings.gap([0.9, 1.0], [0.5, 0.9], LIGHT)


def test_homes_picture_names_its_axes_and_lines():
    drawn = drawings.labeled_gap([0.9, 1.0], [0.5, 0.9], LIGHT, other_novel=[0.5, 0.25])
    words = re.findall(r"<text[^>]*>([^<]*)<", drawn)
    assert words[:8] == ["0 %", "50 %", "100 %", "1", "epoch", "2", "accuracy", "Seen 100 %"]
    assert words[8:] == ["Novel 90 %", "Novel without margin 25 %"]


def test_the_margin_is_told_by_what_becomes_of_the_novel_classes(root):
    told, run = texts(story_step(4)), named("LPS without margin")
    novel = {name: 100 * read_history(named(name)).last("accuracy/novel") for name in ("LPS", "LPS without margin")}
    assert (
        f"novel accuracy is {novel['LPS']:.1f} % with the margin and {novel['LPS without margin']:.1f} % without"
        in told
    )
    split, targets = read_split(run.folder)
    fair = sum(target >= split.classes.seen for target in targets[split.unlabeled]) / split.classes.novel
    idle = sum(count < fair / 10 for count in counts(run)[2][split.classes.seen :])
    assert idle > 0 and f"{idle} of the {split.classes.novel} clusters for novel classes are almost empty" in told
    weight = run.config().hyperparameters["entropy_weight"]
    assert weight == named("LPS").config().hyperparameters["entropy_weight"] != 1
    assert f"is {weight:g} instead of 1" in told


def test_without_recordings_there_is_a_sentence(root, monkeypatch, tmp_path):
    monkeypatch.setattr(run_folders, "RECORDED", tmp_path / "none")
    assert "The recordings that come with LPS Studio were not found." in texts(visit())
    assert "The story cannot be shown" in visit("story").info[0].value
    assert "There are no runs yet." in visit("live").info[0].value


@pytest.mark.parametrize("page", in_turn(["live", "pace", "explain", "compare", "clusters", "review", "projection"], 3))
def test_every_page_shows_something_at_once(root, page):
    at = visit(page)
    assert not [element for element in [*at.info, *at.error, *at.warning]]


def test_they_are_told_apart_and_come_after_own_runs(root):
    own = sample_runs.make_run(root, "finished")
    labels = visit("projection").selectbox[0].options
    assert labels == [*select.run_labels([own, *map(named, NAMES)]).values()]
    assert ["(recorded)" in label for label in labels] == [False] + [True] * len(NAMES)


@pytest.mark.parametrize("state", in_turn(["queued", "stopped", "finished"], 3))
def test_they_do_not_pass_for_the_latest_run(root, state):
    own = sample_runs.make_run(root, state)
    assert own.id in texts(visit("live"))
    assert visit("pace").multiselect[0].value[0] == own.id


@pytest.mark.slow
def test_two_own_runs_are_compared_alone_until_somebody_asks(root):
    sample_runs.make_run(root, "finished")
    assert len(visit("compare").dataframe[0].value) == 1 + len(NAMES) - len(PHOTOGRAPHS) - len(UNEQUAL)
    sample_runs.make_run(root, "finished", settings={"method": "orca"})
    assert len(visit("compare").dataframe[0].value) == 2
    asked = visit("compare", run=[run.id for run in recorded_runs()])
    assert len(asked.dataframe[0].value) == len(NAMES)


@pytest.mark.parametrize("page", in_turn(["live", "clusters", "projection", "pace"], 2))
def test_any_epoch_can_be_looked_at(root, page):
    at = visit(page, run=LPS, epoch="12")
    assert not at.error and "is damaged" not in texts(at)


def test_live_has_no_buttons_that_change_it(root):
    at = visit("live", run=LPS)
    assert not {"Stop", "Cancel", "Resume"} & {button.label for button in at.button}
    assert "Recorded" in texts(at) and "A recording has no log." in texts(at)
    copy = next(link for link in at.page_link if link.label == "Launch a copy")
    assert copy.proto.query_string == f"clone={LPS}"


def test_a_copy_has_its_settings(root):
    at = visit("launch", clone=named("LPS without margin").id)
    assert at.title[0].value == "Launch" and at.toggle(key="set:use_margin").value is False


@pytest.mark.slow
def test_clusters_of_a_recording_cannot_be_named_and_its_pictures_are_written_beside_the_own_runs(root):
    at = visit("clusters", run=LPS)
    assert "A recording is read-only" in texts(at)
    assert not at.text_input and not {"reject", "split", "undo"} & {button.key for button in at.button}
    at.button(key="write_folder").click().run()
    assert not at.exception and not at.error
    made = root / ".recorded" / LPS / "exports" / f"epoch-{EPOCHS:04d}"
    assert (made / "labels.csv").is_file()


@pytest.mark.parametrize("page", in_turn(["clusters", "review", "projection"], 3))
def test_without_an_own_run_the_first_line_says_that_it_is_an_example(root, page):
    assert visit(page).markdown[0].value.startswith("**Example**")
    sample_runs.make_run(root, epochs=2)
    assert "**Example**" not in texts(visit(page))


def test_a_recording_can_be_reviewed_and_nothing_decided(root):
    at = visit("review", run=LPS)
    assert "A recording is read-only" in texts(at)
    told = [element.proto.json for element in at.get("bidi_component") if "/desk/" in element.proto.json]
    assert len(told) == 1 and '"readonly": true' in told[0].replace('":true', '": true')


def test_a_map_that_was_not_recorded_is_not_computed(root):
    at = visit("projection", run=LPS, map="umap", epoch="12")
    assert "was not recorded" in at.info[0].value and not at.button
    assert not visit("projection", run=LPS, map="umap").info


@pytest.mark.parametrize("step", range(1, 9))
def test_every_step_is_one_idea_in_at_most_sixty_words(root, step):
    at = story_step(step)
    heading, tell, _ = story.STEPS[step - 1]
    assert at.title[0].value == heading and f"Step {step} of 8" in texts(at)
    assert 20 <= len(tell(story._load_scene()).split()) <= 60
    if tell in story.NOTES:
        note = story.NOTES[tell](story._load_scene())
        assert 20 <= len(note.split()) <= 60 and note.replace("\\", "") in texts(at)
    assert [at.button(key=f"story_{way}").disabled for way in ("back", "next")] == [step == 1, step == 8]


def test_next_and_back_stand_in_the_address(root):
    at = visit("story")
    at.button(key="story_next").click().run()
    assert at.query_params["step"] == "2" and "Step 2 of 8" in texts(at)
    at.button(key="story_back").click().run()
    assert "step" not in at.query_params and "Step 1 of 8" in texts(at)


def test_the_study_of_the_margin_is_read_where_it_is_named(root):
    at = visit("story", step="4")
    assert "*When the margin helps*" in texts(at)
    at.button(key="story_study").click().run()
    assert not at.exception and "on 22 November 2026, before any of its runs" in texts(at)


@pytest.mark.parametrize("step, shown", [("99", 8), ("two", 1)])
def test_an_address_beyond_the_story_is_its_nearest_step(root, step, shown):
    assert f"Step {shown} of 8" in texts(visit("story", step=step))


def test_its_numbers_are_counted(root):
    lost, novel, _ = counts(named("FixMatch"))
    assert f"**{lost} of {novel}** novel pictures" in texts(story_step(3))
    assert f"LPS takes only {counts(named('LPS'))[0]}." in texts(story_step(3))
    sizes = counts(named("LPS without entropy"))[2]
    told = texts(story_step(6))
    assert (f"**{sizes.count(0)} clusters stay empty**" in told) == (sizes.count(0) > 0)
    assert f"the largest has {max(sizes)} pictures" in told
    split, _ = read_split(named("LPS").folder)
    assert f"{len(split.labeled):,} pictures of seen classes have a label. {len(split.unlabeled):,}" in texts(
        story_step(2)
    )


def test_the_first_pictures_show_their_classes_on_request(root):
    at = visit("story", step="2")
    body = at.get("html")[0].proto.body
    assert body.count("<figure") == story.SHOWN_PICTURES
    assert 'class="novel"' not in body
    assert "novel" not in body.split("</style>")[1]
    at.toggle(key="story_told").set_value(True).run()
    told = at.get("html")[0].proto.body
    assert told.count('class="novel"') + told.count('class="seen"') == story.SHOWN_PICTURES
    assert story.COLORS in texts(at)


def test_doors_lead_to_filled_forms(root):
    doors = [link.proto.query_string for link in story_step(8).page_link]
    changed = {name: next(door for door in doors if name in door) for name in ("use_margin", "margin_scale")}
    assert all("epochs%3D20" in door and "entropy_weight%3D0.5" in door for door in changed.values())


def test_a_door_changes_one_setting_of_the_demo(root, monkeypatch):
    monkeypatch.setattr(launcher, "launch", lambda run: None)
    at = visit("launch", set=[f"{key}={text}" for key, text in demo.setting_texts(margin_scale="30").items()])
    at.button(key="launch_start").click().run()
    (own,) = run_folders.list_runs(root)
    mine, started = own.config().flat(), configure(demo.SETTINGS).flat()
    assert {key for key in mine if mine[key] != started[key]} == {"margin_scale"}


def test_a_share_by_epoch_ends_where_the_count_does(root):
    run = named("FixMatch")
    lost, novel, sizes = counts(run)
    shares = recordings.swallowed_share_by_epoch(run)
    assert list(shares.index) == list(range(1, EPOCHS + 1)) and shares.iloc[-1] == pytest.approx(lost / novel)
    assert recordings.count_swallowed(run) == (lost, novel) and recordings.cluster_sizes(run).tolist() == sizes


def test_true_cluster_sizes(root):
    split, targets = read_split(named("LPS").folder)
    truth, seen = np.bincount(targets[split.unlabeled], minlength=split.classes.total), split.classes.seen
    assert recordings.true_cluster_sizes(named("LPS")).tolist() == [
        *truth[:seen],
        *[truth[seen:].mean()] * (len(truth) - seen),
    ]


def test_new_clusters_are_called_as_the_novel_classes_of_explain():
    assert (
        tuple(recordings.cluster_name(number, 5) for number in range(5, 10))
        == distribution.MADE_UP[distribution.MADE_UP_SEEN :]
    )


def test_where_all_runs_begin_is_told_with_their_numbers(root):
    starts = [
        read_history(named(name)).start["baseline/kmeans/all"] for name in NAMES if name not in (*PHOTOGRAPHS, *UNEQUAL)
    ]
    assert len(set(starts)) == 1
    told = texts(story_step(2))
    assert f"puts {100 * starts[0]:.1f} % of the pictures" in told
    ends = {name: 100 * read_history(named(name)).last("accuracy/all") for name in ("LPS", "FixMatch")}
    assert f"LPS is right on {ends['LPS']:.1f} % of these pictures and FixMatch on {ends['FixMatch']:.1f} %" in told


def test_novel_accuracy_and_swallowing_are_no_contradiction(root):
    split, targets = read_split(named("FixMatch").folder)
    truth, predicted = targets[split.unlabeled], read_snapshot(named("FixMatch").snapshots, EPOCHS).predicted
    seen, total = split.classes.seen, split.classes.total
    novel = truth >= seen
    groups = np.bincount(predicted[novel] * total + truth[novel], minlength=total**2).reshape(total, total)[:, seen:]
    orders = permutations(range(total), total - seen)
    best = max(sum(groups[group, place] for place, group in enumerate(order)) for order in orders)
    assert f"{100 * best / novel.sum():.0f} % novel accuracy for FixMatch" in texts(story_step(3))


def test_the_target_of_equal_shares_is_told_beside_the_true_ones(root):
    split, targets = read_split(named("LPS").folder)
    trained = np.bincount(targets[[*split.labeled, *split.unlabeled]]) / (len(split.labeled) + len(split.unlabeled))
    body = np.bincount(targets[split.unlabeled])
    told = texts(story_step(5))
    assert f"({100 * trained.min():.1f} to {100 * trained.max():.1f} %)" in told
    seen = split.classes.seen
    assert f"{body[seen:].mean() / body[:seen].mean():.1f} times as many" in told


def test_the_margins_of_both_groups_are_told(root):
    margins, seen = (
        read_history(named("LPS")).vectors["margin"].astype(float),
        read_split(named("LPS").folder)[0].classes.seen,
    )
    novel, seen = margins[list(range(seen, margins.shape[1]))].mean(axis=1), margins[list(range(seen))].mean(axis=1)
    told = texts(story_step(5))
    assert f"{seen.iloc[0]:.2f} for :blue[seen]" in told and f"{novel.iloc[0]:.2f} for" in told
    apart = (seen - novel).abs()
    if apart.iloc[-1] < story.EQUAL_MARGIN:
        from_epoch = story.first_equal_epoch(seen, novel)
        assert f"from epoch {from_epoch} on, both are about equal" in told
        assert apart.loc[from_epoch - 1] >= story.EQUAL_MARGIN > apart.loc[from_epoch:].max()
    else:
        assert f"{seen.iloc[-1]:.2f} and {novel.iloc[-1]:.2f}" in told


def test_margins_are_alike_from_the_last_epoch_on_at_which_they_differed():
    seen = pd.Series([1.0, 0.5, 0.9, 0.5], [1, 2, 3, 4])
    assert story.first_equal_epoch(seen, pd.Series([0.5] * 4, [1, 2, 3, 4])) == 4
    assert story.first_equal_epoch(seen, seen) == 1


def test_the_chart_of_the_brake_shows_the_beginning(root):
    (figure,) = charts_of(story_step(5)).values()
    assert figure["layout"]["xaxis"]["range"][1] == story.BEGINNING + 0.5


def test_a_recording_of_another_kind_has_a_plain_sentence(root, monkeypatch, tmp_path):
    from lps.interop.recording import record_run

    made = record_run(sample_runs.make_run(root, "finished", epochs=3, settings={"split.num_seen": 4}), tmp_path / "to")
    monkeypatch.setattr(run_folders, "RECORDED", tmp_path / "to")
    assert recordings_gallery._describe_recording("", made, {}).startswith("Accuracy at the end: ")
    home = visit()
    assert "never more than" in texts(home) and not [link for link in home.page_link if link.label == "Begin"]


def test_a_race_that_has_no_epoch_yet_leads_to_a_recorded_one(root):
    waiting = sample_runs.make_run(root, "queued")
    page = visit("pace", run=waiting.id)
    page.button("recorded_race").click().run()
    assert page.query_params["run"] == [LPS, named("LPS without margin").id]
    assert "recorded_race" not in [button.key for button in page.button]


def test_a_copy_of_a_recorded_run_says_that_its_pictures_are_not_here():
    recorded = [run for run in recorded_runs() if run.config().dataset == "arrays"]
    at = visit("launch", clone=recorded[0].id)
    assert "comes without its pictures" in at.warning[0].value and "npz file" in at.warning[0].value
    others = [run for run in recorded_runs() if run.config().dataset == "digits"]
    assert not visit("launch", clone=others[0].id).warning
