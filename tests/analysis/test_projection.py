"""Maps of features: right points for right images, the same ones every time, and work that can be watched."""

import json
import sys

import numpy as np
import pytest
from sklearn.decomposition import PCA

from lps.analysis import projection
from lps.analysis.projection import align_plane, fit_plane, unit_rows
from lps.errors import UserError
from lps.store import snapshots
from lps.store.snapshots import MAX_POINTS, MAX_VALUES, Snapshot
from lps.ui.pictures import points
from tests.patience import until
from tests.sample_runs import make_damaged, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs"), epochs=3, written=3)


def features(count=80, width=12, seed=0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return (draw.normal(size=(count, width)) * np.linspace(4, 0.2, width)).astype(np.float32)


def test_unit_rows_and_zeros():
    rows = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    assert rows.tolist() == [[0.6, 0.8], [0.0, 0.0]]


@pytest.mark.parametrize("width", [12, 2000])
def test_plane_is_that_of_sklearn_up_to_sign(width):
    values = features(300, width)
    values[:, :2] *= (10, 5)
    ours = fit_plane(values).project(values)
    theirs = PCA(2, svd_solver="full").fit_transform(unit_rows(values).astype(float))
    signs = np.sign((ours * theirs).sum(axis=0))
    assert np.allclose(ours * signs, theirs, atol=1e-4 if width == 12 else 1e-3)


def test_plane_of_one_feature_and_of_equal_images():
    assert fit_plane(features(width=1)).project(features(width=1)).shape == (80, 2)
    for same in (np.ones((5, 4), np.float32), np.ones((5, 2000), np.float32)):
        assert np.isfinite(fit_plane(same).project(same)).all()


def test_turn_undoes_a_rotation_and_a_reflection():
    values = features()
    plane = fit_plane(values)
    towards = plane.project(values)
    angle = 2.0
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ np.diag([1, -1])
    turned = projection.Plane(plane.center, plane.axes @ rotation)
    back = align_plane(turned, turned.project(values), towards)
    assert np.allclose(back.project(values), towards, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pca", pytest.param("tsne", marks=pytest.mark.turn(2, 3))])
def test_project_stores_every_image_of_the_snapshot_and_repeats_itself(run, method):
    path = projection.compute_map(run, method, 3)
    first = projection.read_map(run, method, 3)
    assert first.index.tolist() == snapshots.read_snapshot(run.snapshots, 3).feature_index.tolist()
    assert first.points.shape == (len(first.index), 2)
    assert np.isfinite(first.points).all()
    path.unlink()
    projection.compute_map(run, method, None)  # the last epoch is meant
    assert np.array_equal(projection.read_map(run, method, 3).points, first.points)
    path.unlink()


def test_project_refuses_what_is_not_there(run):
    with pytest.raises(UserError, match="epoch: 99 has no snapshot; choices: 1, 2, 3"):
        projection.compute_map(run, "pca", 99)
    with pytest.raises(UserError, match="'cube' is not one of pca, umap, tsne"):
        projection.compute_map(run, "cube", 1)


def test_a_map_that_was_not_computed_is_none(run):
    assert projection.read_map(run, "umap", 1) is None
    assert projection.map_progress(run, "umap", 1).state == "absent"


def ended_map(run, method, epoch):
    """Its state once nothing works on it; None before."""
    found = projection.map_progress(run, method, epoch)
    return found if found.state != "working" else None


@pytest.mark.slow
def test_background_work_is_seen_while_it_lives_and_starts_once(run, tmp_path):
    marks = tmp_path / "starts"
    script = f"import time; open({str(marks)!r}, 'a').write('x'); print('half of it', flush=True); time.sleep(1.5)"
    for _ in range(3):
        projection.start_map(run, "umap", 2, (sys.executable, "-c", script))
    assert projection.map_progress(run, "umap", 2).state == "working"
    ended = until(lambda: ended_map(run, "umap", 2))
    assert (ended.state, ended.message) == ("failed", "half of it")
    assert marks.read_text() == "x"


def test_background_work_that_dies_says_its_last_words(run):
    projection.start_map(run, "tsne", 1, (sys.executable, "-c", "raise SystemExit('tsne: no memory left')"))
    assert until(lambda: ended_map(run, "tsne", 1)).message == "tsne: no memory left"


@pytest.mark.slow
def test_background_work_of_the_command_line(run):
    projection.start_map(run, "pca", 2)
    assert until(lambda: ended_map(run, "pca", 2)).state == "done"
    assert len(projection.read_map(run, "pca", 2).index) == 1000


@pytest.mark.slow
def test_maps_of_all_epochs_are_made_by_the_command_line(run):
    projection.start_all_maps(run, "pca", 2)
    until(lambda: projection.progress_of_all_maps(run, "pca").state not in ("absent", "working"), 120, 0.1)
    assert projection.progress_of_all_maps(run, "pca").state == "done"
    assert projection.stored_epochs(run, "pca") == snapshots.snapshot_epochs(run.snapshots)


def test_points_belong_to_their_images(run):
    table = points.read_points(run, 3)
    split, targets = snapshots.read_split(run.folder)
    snapshot = snapshots.read_snapshot(run.snapshots, 3)
    row_of = {int(image): row for row, image in enumerate(split.unlabeled)}
    for point in table.sample(50, random_state=0).itertuples():
        assert point.truth == targets[point.image]
        assert point.predicted == snapshot.predicted[row_of[point.image]]  # the sample's clusters need no matching
        assert point.confidence == pytest.approx(float(snapshot.confidence[row_of[point.image]]))
        assert point.right == (point.truth == point.predicted)


def test_pictures_are_those_of_the_ids(run):
    images = points.read_pictures(run)
    table = points.read_points(run, 1)
    split, _ = snapshots.read_split(run.folder)
    image = int(table["image"][5])
    assert split.class_names[table["truth"][5]] == images.class_names[images.labels[image]]


def test_pictures_of_a_changed_data_set_are_refused(run, monkeypatch):
    known = points.read_pictures(run)
    swapped = known.labels.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    other = type(known)(known.pixels, swapped, known.class_names)
    monkeypatch.setattr("lps.data.sources.load", lambda *source: other)
    with pytest.raises(UserError, match="has changed since the run"):
        points.read_pictures(run)


def test_damaged_snapshot_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="epoch-0007.npz: is damaged"):
        points.read_points(make_damaged(tmp_path), 7)


def test_snapshot_of_another_split_is_refused(tmp_path):
    run = make_run(tmp_path, epochs=2, written=2)
    found = snapshots.read_snapshot(run.snapshots, 2)
    shorter = snapshots.Snapshot(found.predicted[1:], found.confidence[1:], found.features, found.feature_index)
    snapshots.write_snapshot(run.snapshots, 2, shorter)
    with pytest.raises(UserError, match="does not have one class id for each of the"):
        points.read_points(run, 2)


def test_align_undoes_every_rigid_motion_and_scales_nothing():
    towards = np.random.default_rng(0).normal(size=(30, 2))
    turn_by = np.array([[np.cos(2.0), -np.sin(2.0)], [np.sin(2.0), np.cos(2.0)]]) @ np.diag([1, -1])
    assert np.allclose(projection.align_points(towards @ turn_by + [7, -3], towards), towards)
    wider = projection.align_points(3 * towards @ turn_by, towards)
    assert np.allclose(
        np.linalg.norm(wider - wider.mean(0), axis=1), 3 * np.linalg.norm(towards - towards.mean(0), axis=1)
    )


def test_align_is_the_least_sum_of_squares_over_all_turns():
    draw = np.random.default_rng(1)
    points, towards = draw.normal(size=(2, 20, 2))
    best = ((projection.align_points(points, towards) - towards) ** 2).sum()
    centred, goal = points - points.mean(0), towards - towards.mean(0)
    for angle in np.linspace(0, 2 * np.pi, 721):
        turned = centred @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        for mirrored in (turned, turned * [1, -1]):
            assert ((mirrored - goal) ** 2).sum() >= best - 1e-9


@pytest.mark.parametrize(("most", "expected"), [(24, [1, 2, 3, 5, 9]), (3, [1, 3, 9]), (2, [1, 9]), (0, [1, 9])])
def test_epochs_are_spread_evenly_with_both_ends(most, expected):
    assert projection.spread_epochs([1, 2, 3, 5, 9], most) == expected


@pytest.fixture
def maker(tmp_path, monkeypatch):
    """A run whose "maps" are recorded: which one each began from. Fits are replaced by the start, or ones."""
    run = make_run(tmp_path, epochs=6, written=6)
    begun = []

    def fit(features, start):
        begun.append(None if start is None else round(float(np.abs(start).max()), 4))
        return np.full((len(features), 2), 1.0) if start is None else start + 1, {}

    monkeypatch.setattr(projection, "_umap", fit)
    monkeypatch.setattr(projection, "_tsne", fit)
    return run, begun


def test_every_map_begins_from_that_of_the_nearest_epoch(maker):
    run, begun = maker
    order = [4, 5, 3, 6, 2, 1]
    assert [path.name for path in projection.compute_all_maps(run, "umap", 4)] == [
        f"umap-epoch-{e:04d}.npz" for e in order
    ]
    assert begun[0] is None and None not in begun[1:]
    started = {}
    for epoch in order:
        path = run.projections / f"umap-epoch-{epoch:04d}.npz"
        started[epoch] = json.loads(str(snapshots.read_arrays(path, ("parameters",))["parameters"]))["begun_from"]
    assert started == {4: None, 5: 4, 3: 4, 6: 5, 2: 3, 1: 2}
    assert projection.stored_epochs(run, "umap") == [1, 2, 3, 4, 5, 6] and not projection.stored_epochs(run, "tsne")
    assert projection.progress_of_all_maps(run, "umap").state == "done"
    assert projection.progress_of_all_maps(run, "tsne").state == "absent"


def test_maps_that_are_there_stay_and_damaged_ones_are_not_begun_from(maker):
    run, begun = maker
    first = projection.compute_map(run, "tsne", 3)
    before = first.read_bytes()
    (run.projections / "tsne-epoch-0004.npz").write_bytes(b"PK broken")
    projection.compute_map(run, "tsne", 5)
    assert begun == [None, 1.0]  # from epoch 3: the nearer one is damaged
    projection.compute_all_maps(run, "tsne")
    assert first.read_bytes() == before and len(begun) == 5  # 6, 2, 1 and no more: 3, 4 and 5 have a file


def test_maps_of_all_epochs_refuse_what_is_not_there(run):
    with pytest.raises(UserError, match="epoch: 99 has no snapshot"):
        projection.compute_all_maps(run, "umap", 99)


@pytest.mark.slow
def test_points_of_tsne_move_less_when_they_begin_from_the_map_before(tmp_path):
    """The control is the same epoch begun from nothing, turned towards the same map. Half of the images suffice."""
    run = make_run(tmp_path, epochs=3, written=3, lucky=False)
    second, third = (snapshots.read_snapshot(run.snapshots, e).features[::2].astype(np.float32) for e in (2, 3))
    before = projection._tsne(third, None)[0].astype(float)
    begun, alone = (
        projection.align_points(projection._tsne(second, s)[0].astype(float), before) for s in (before, None)
    )
    moved, jumped = (np.median(np.linalg.norm(points - before, axis=1)) for points in (begun, alone))
    assert moved < 0.8 * jumped


def test_the_view_holds_the_points_of_every_epoch_that_it_is_made_of(run):
    low, high = points.axis_limits(run, "pca")
    for epoch in (1, 2, 3):
        places = points.read_points(run, epoch)[["x", "y"]].to_numpy()
        assert (places > low).all() and (places < high).all()
    assert points.axis_limits(run, "umap")[0].tolist() == [-1, -1]  # no map yet


@pytest.mark.parametrize("width, order", [(1, "C"), (4096, "F")])
def test_of_many_features_a_page_reads_some_images_with_their_ids_and_of_few_all(tmp_path, width, order):
    most = min(MAX_POINTS, MAX_VALUES // width)
    for epoch, count in enumerate((most, most + 100)):
        features = np.zeros((count, width), np.float16, order)
        features[:, 0] = np.arange(count) % 2048
        none = np.zeros(0, np.int16)
        snapshots.write_snapshot(tmp_path, epoch, Snapshot(none, none.astype(np.float16), features, np.arange(count)))
        some = snapshots.read_snapshot(tmp_path, epoch, thinned=True)
        assert some.features.shape == (most, width) and (some.features[:, 0] == some.feature_index % 2048).all()
        assert some.feature_index[[0, -1]].tolist() == [0, count - 1]
        assert snapshots.read_snapshot(tmp_path, epoch).features.shape == (count, width)


def test_features_without_an_id_each_are_damage_in_a_thinned_reading_too(tmp_path):
    none, count = np.zeros(0, np.int16), MAX_POINTS + 100
    wrong = Snapshot(none, none.astype(np.float16), np.ones((count, 1), np.float16), np.arange(7))
    snapshots.write_snapshot(tmp_path, 0, wrong)
    with pytest.raises(UserError, match="is damaged"):
        snapshots.read_snapshot(tmp_path, 0, thinned=True)


def test_a_map_of_very_many_images_has_them_all(run):
    count = MAX_POINTS + 7
    run.projections.mkdir(exist_ok=True)
    path = run.projections / "umap-epoch-0003.npz"
    snapshots.write_arrays(path, points=np.ones((count, 2), np.float32), index=np.arange(count))
    found = projection.read_map(run, "umap", 3)
    assert len(found.points) == len(found.index) == count and found.index[[0, -1]].tolist() == [0, count - 1]
