"""Stored features as training data: computed once by a backbone, then used instead of views of pictures.

`StoredFeatures` replaces `lps.data.batches.Pictures`: every step draws, for each image, one of its stored
views. Evaluation uses the plain one. The backbone `network.name` is only used while a store is made; a
run trains a head on its features (`lps.network.network`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from lps import datasets
from lps.data import feature_parts, feature_store, sources
from lps.data.batches import PIECE, Lap, Pictures, no_lap
from lps.data.extraction import Extraction
from lps.data.feature_store import Report, Store
from lps.data.training_data import pictures_on_device, resolve_device
from lps.machine.devices import available_cores
from lps.settings.config import Config


@dataclass(frozen=True)
class StoredFeatures:
    """Features of images, float16 (n, d) per view; selected rows are float32 on `device`.

    tables: the views of every kind; on the device, or memory-mapped if they do not fit. key: of
    the store. rows: int64, the selected images in this order, on the device of the tables; None: all.
    """

    tables: Mapping[str, tuple[Tensor, ...]]
    key: str
    device: torch.device
    rows: Tensor | None = None

    def __len__(self) -> int:
        return len(self._plain_table if self.rows is None else self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self._plain_table.shape[1]

    @property
    def home(self) -> torch.device:
        """The device that ids must be on."""
        return self._plain_table.device

    @property
    def _plain_table(self) -> Tensor:
        return self.tables["plain"][0]

    def part(self, ids: np.ndarray) -> "StoredFeatures":
        """Return the images of these ids alone, without copying."""
        ids = torch.from_numpy(ids).to(self.home)
        return replace(self, rows=ids if self.rows is None else self.rows[ids])

    def spread(self, most: int) -> "StoredFeatures":
        """Return about `most` of the images, evenly spread; all if there are fewer."""
        count, step = len(self), max(1, len(self) // most)
        starts = range(0, count, PIECE)
        return self.part(np.concatenate([np.arange(start, min(start + PIECE, count), step) for start in starts]))

    def expecting(self, parts: Sequence[Tensor]) -> "StoredFeatures":
        """Do nothing, unlike `Pictures`: a table needs no reading ahead."""
        return self

    def seen(
        self, ids: Tensor, views: Sequence[str], noise: torch.Generator | None = None, lap: Lap = no_lap
    ) -> list[Tensor]:
        """Return the images of these ids in views of each kind, drawn by `noise`: (b, d) per view.

        If a kind occurs twice, an image gets different views of it, as long as there are enough.
        """
        ids = ids if self.rows is None else self.rows[ids]
        if noise is not None and noise.device != self.home:  # tables on the host are indexed there
            noise = torch.Generator(self.home).manual_seed(noise.initial_seed())
        orders, used, drawn_views = {}, dict.fromkeys(views, 0), []
        for kind in views:
            tables = self.tables[kind]
            if len(tables) > 1 and kind not in orders:
                draws = torch.rand(len(ids), len(tables), generator=noise, device=noise.device)
                orders[kind] = draws.argsort(dim=1)
            if kind in orders:
                drawn_views.append(self._to_device(_drawn(tables, orders[kind][:, used[kind] % len(tables)], ids)))
            else:
                drawn_views.append(self._to_device(tables[0][ids]))
            used[kind] += 1
        lap("read")
        return drawn_views

    def _to_device(self, rows: Tensor) -> Tensor:
        """Copy rows of a table to the device, without waiting."""
        if self.home != self.device and self.device.type == "cuda":
            rows = rows.pin_memory()
        return rows.to(self.device, non_blocking=True).float()

    def all_seen(self, view: str, piece: int = PIECE) -> Iterator[Tensor]:
        """Yield all images in order in the first view of a kind, `piece` of them at a time."""
        for ids in torch.arange(len(self), device=self.home).split(piece):
            rows = ids if self.rows is None else self.rows[ids]
            yield self._to_device(self.tables[view][0][rows])

    def feed(self, digest) -> None:
        """Feed the store's key into a digest of `hashlib`: it changes with pictures, weights and views."""
        digest.update(self.key.encode())
        if self.rows is not None:
            digest.update(self.rows.cpu().numpy())


def _drawn(tables: Sequence[Tensor], table_of_image: Tensor, ids: Tensor) -> Tensor:
    """Return row ids[i] of table table_of_image[i], for every image."""
    if table_of_image.device.type == "cuda":
        return _drawn_from_all(tables, table_of_image, ids)
    out = tables[0].new_empty((len(ids), tables[0].shape[1]))
    for number, table in enumerate(tables):
        selected = (table_of_image == number).nonzero().squeeze(1)
        out[selected] = table[ids[selected]]
    return out


def _drawn_from_all(tables: Sequence[Tensor], table_of_image: Tensor, ids: Tensor) -> Tensor:
    """Do the same as `_drawn` but read all tables: selecting rows by table would wait for the GPU."""
    return torch.stack([table[ids] for table in tables])[table_of_image, torch.arange(len(ids), device=ids.device)]


def features_for_run(
    config: Config, images: Pictures, report: Report, should_stop: Callable[[], bool]
) -> StoredFeatures | None:
    """Return the features that a run trains on, from the store or computed now; None if stopped meanwhile.

    report: pictures done over all views, and their total.
    """
    images, kept_ids = _undecided(config, images)
    store = _store_of(config, images, _table_names(config), report, should_stop)
    stored = None if store is None else _read_store(config, store, images.device)
    return stored if stored is None or kept_ids is None else stored.part(kept_ids)


def build_store(
    config: Config, report: Report, should_stop: Callable[[], bool], is_together: bool = False
) -> Store | None:
    """Return the complete store for runs of this config, using its threads; None if stopped meanwhile.

    is_together: share the work with other processes that make the same store.
    """
    torch.set_num_threads(config.threads or available_cores())
    images = pictures_on_device(sources.images_of(config), resolve_device(config.device))
    complete = feature_parts.complete_store_together if is_together else feature_store.complete_store
    return _store_of(config, images, _table_names(config), report, should_stop, complete)


def plain_features(
    config: Config, report: Report = lambda done, total: None, should_stop: Callable[[], bool] = lambda: False
) -> np.ndarray | None:
    """Return plain features of all pictures of the config's data set, float16 (n, d), memory-mapped; computes them if
    missing. None if stopped meanwhile; raises `UserError`.
    """
    stored = plain_features_of(
        config, pictures_on_device(sources.images_of(config), resolve_device(config.device)), report, should_stop
    )
    if stored is None:
        return None
    table = stored.tables["plain"][0].numpy()
    return table if stored.rows is None else table[stored.rows.numpy()]


def plain_features_of(
    config: Config,
    images: Pictures,
    report: Report = lambda done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> StoredFeatures | None:
    """Return features like `features_for_run`, but only the plain view, memory-mapped, for analysis."""
    images, kept_ids = _undecided(config, images)
    store = _store_of(config, images, ["plain"], report, should_stop)
    if store is None:
        return None
    stored = StoredFeatures({"plain": (torch.from_numpy(_mapped(store, "plain")),)}, store.key, images.device)
    return stored if kept_ids is None else stored.part(kept_ids)


def _undecided(config: Config, images: Pictures) -> tuple[Pictures, np.ndarray | None]:
    """Return (the images before edits, rows of `images` among them; None: all), so that both share one store."""
    kept_ids = sources.kept_ids(config)
    if kept_ids is None:
        return images, None
    undecided = sources.load_arguments(config)._replace(decisions=None)
    return pictures_on_device(sources.load(*undecided), images.device), kept_ids


def _table_names(config: Config) -> list[str]:
    """Return the names of the tables that a run of this config draws from."""
    counts = {"weak": config.features_weak_views, "strong": config.features_strong_views}
    return ["plain", *(f"{kind}-{number}" for kind, count in counts.items() for number in range(count))]


def _read_store(config: Config, store: Store, device: torch.device) -> StoredFeatures:
    """Read the tables of a complete store: to the device if they are small enough, else memory-mapped."""
    names = _table_names(config)
    is_copied = device.type != "cpu" and store.size(len(names)) <= datasets.ON_DEVICE
    tables: dict[str, list[Tensor]] = {}
    for name in names:
        mapped = torch.from_numpy(_mapped(store, name))
        tables.setdefault(name.partition("-")[0], []).append(mapped.to(device) if is_copied else mapped)
    return StoredFeatures({kind: tuple(tables_of_kind) for kind, tables_of_kind in tables.items()}, store.key, device)


def _mapped(store: Store, name: str) -> np.ndarray:
    """Map float16 (n, d); a private map, since torch requires writable memory."""
    return np.memmap(store.table(name), np.float16, "c", shape=(store.count, store.width))


def _store_of(
    config: Config,
    images: Pictures,
    names: Sequence[str],
    report: Report,
    should_stop: Callable[[], bool],
    complete: Callable[..., Store | None] = feature_store.complete_store,
) -> Store | None:
    """Return the store with these tables, of all pictures of the config's data set; None if stopped meanwhile."""
    extraction = Extraction(config, images)
    return complete(extraction.key, len(images), names, extraction.begin, report, should_stop)
