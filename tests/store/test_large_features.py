"""Large features of a snapshot are stored as they are, everything else compressed; both read back the same."""

import zipfile

import numpy as np
import pytest

from lps.errors import UserError
from lps.store import snapshots


def _written(folder):
    draws = np.random.default_rng(0)
    snapshot = snapshots.Snapshot(
        draws.integers(0, 10, 5000).astype(np.int16),
        draws.random(5000).astype(np.float16),
        draws.normal(size=(5000, 8)).astype(np.float16),
        np.arange(5000, dtype=np.int32),
    )
    snapshots.write_snapshot(folder, 1, snapshot)
    with zipfile.ZipFile(folder / "epoch-0001.npz") as archive:
        return snapshot, {entry.filename: entry.compress_type for entry in archive.infolist()}


@pytest.mark.parametrize("is_large", [False, True])
def test_large_features_are_not_compressed(is_large, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "_LARGE", 1000 if is_large else 1 << 20)
    monkeypatch.setattr(snapshots, "MAX_POINTS", 100)
    snapshot, kinds = _written(tmp_path)
    assert kinds.pop("features.npy") == (zipfile.ZIP_STORED if is_large else zipfile.ZIP_DEFLATED)
    assert set(kinds.values()) == {zipfile.ZIP_DEFLATED}
    for name, array in vars(snapshots.read_snapshot(tmp_path, 1)).items():
        assert np.array_equal(array, getattr(snapshot, name)) and array.dtype == getattr(snapshot, name).dtype
    thinned = snapshots.read_snapshot(tmp_path, 1, thinned=True)
    assert len(thinned.features) == 100 and np.array_equal(thinned.features, snapshot.features[thinned.feature_index])
    features, index = snapshots.read_thinned_features(tmp_path, 1)
    assert np.array_equal(index, thinned.feature_index) and np.array_equal(features, thinned.features)
    features, index = snapshots.read_thinned_features(tmp_path, 1, 7)
    rows = np.linspace(0, 99, 7).round().astype(int)
    assert np.array_equal(index, thinned.feature_index[rows]) and np.array_equal(features, thinned.features[rows])
    with np.load(tmp_path / "epoch-0001.npz") as stored:  # other programs read it, too
        assert np.array_equal(stored["features"], snapshot.features)


def test_a_changed_byte_of_large_features_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "_LARGE", 1000)
    snapshot, _ = _written(tmp_path)
    path = tmp_path / "epoch-0001.npz"
    data, row = path.read_bytes(), snapshot.features[2500].tobytes()
    path.write_bytes(data.replace(row, row[:-1] + bytes([row[-1] ^ 1])))
    with pytest.raises(UserError, match="is damaged"):
        snapshots.read_snapshot(tmp_path, 1)


def test_rows_beyond_the_end_of_a_cut_file_are_damage(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "_LARGE", 1000)
    _written(tmp_path)
    path = tmp_path / "epoch-0001.npz"
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("features.npy").header_offset
    data = bytearray(path.read_bytes())
    data[place : place + 2] = b"no"
    path.write_bytes(data)
    with pytest.raises(UserError, match="is damaged"):
        snapshots.read_thinned_features(tmp_path, 1, 10)
