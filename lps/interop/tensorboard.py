"""Export runs to TensorBoard: numbers as scalars, vectors and confidences as histograms, settings as hyperparameters.

Every run becomes a folder with one file of events to which data is only appended, so TensorBoard reads on from its last
position. Only events that count in the end are shown (`events.drop_repeated`): if a resumed run takes records back, a
new session begins in the file, which voids all before it. Numbers are float32; one that was not finite is NaN. Features
for the projector are in the same folder (`lps.interop.projector`). TensorBoard's own package frames the records;
neither torch nor TensorFlow is needed.

tensorboardX 2.6.5 was tried and refused: each export begins another file, named after the clock, so that a second
export shows every point twice; it does not repair a torn record; and it turns hyperparameters into a run of their own.
"""

import io
import os
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from lps.analysis.clusters import read_assignment
from lps.errors import UserError, shorten
from lps.files.atomic import write_json
from lps.files.atomic_folder import MARK, check_place
from lps.files.locks import try_lock
from lps.interop import projector
from lps.settings import catalog
from lps.store.events import MeasurementNames, drop_repeated, read_events
from lps.store.run_folders import list_runs
from lps.store.runs import Run
from lps.store.snapshots import read_split, snapshot_epochs

_CURVES = 20  # vectors up to this length are also written as curves, one per entry
_OF_STEPS = "steps/"  # prefix of lists over the steps of an epoch, which are not exported
_BINS = 30  # bins of a histogram
_CONFIDENCE_BINS = 50  # from 0 to 1
FILE = "events.out.tfevents.lps"  # TensorBoard knows its files by "tfevents"
POLL_S = 1.0  # seconds between two updates of an active run
_ENDS = {"finish": "STATUS_SUCCESS", "stop": "STATUS_FAILURE", "fail": "STATUS_FAILURE"}


def export(runs: Sequence[Run], into: Path, epoch: int | None = None) -> dict[Path, str]:
    """Write new events of each of `runs` into its folder below `into`; raises `UserError`.

    epoch: of the projector's features, by default the newest. Returns for each folder why its projector lacks something
    ("" if it does not).
    """
    paths = {}
    for run in runs:
        bridge = Bridge(run, into, epoch)
        bridge.update()
        bridge.close()
        paths[bridge.folder] = bridge.missing
    return paths


def follow(runs: Sequence[Run], root: Path, into: Path) -> Iterator["Bridge"]:
    """Write new events as they come, until all of `runs` are over; yield each bridge after its first update.

    Without `runs`: follow all active and waiting runs in the folder `root`, also later ones, for ever.
    """
    bridges: dict[str, Bridge] = {}
    ended: set[str] = set()
    while True:
        for run in runs or [run for run in list_runs(root) if run.state().is_moving]:
            if run.id not in bridges and not (runs and run.id in ended):
                bridges[run.id] = Bridge(run, into)
                bridges[run.id].update()
                yield bridges[run.id]
        for bridge in list(bridges.values()):
            if bridge.step():
                bridge.close()
                ended.add(bridge.run.id)
                del bridges[bridge.run.id]
        if runs and not bridges:
            return
        time.sleep(POLL_S)


@dataclass
class Bridge:
    """Export of one run to TensorBoard: every `update` writes the events since the last one."""

    run: Run
    into: Path
    epoch: int | None = None  # of the projector's features; None: the newest
    missing: str = ""  # why the projector is missing or has no pictures
    _history: list[dict] = field(default_factory=list)
    _offset: int = 0
    _encoder: "Encoder | None" = None
    _file: "EventFile | None" = None
    _projector_epoch: int = -1  # whose features were written last

    @property
    def folder(self) -> Path:
        return self.into / self.run.id

    def step(self) -> bool:
        """Update; return whether the run was over before, so that its last events are written too."""
        is_over = not self.run.state().is_moving
        if self.run.folder.is_dir():  # of a deleted run, the exported events stay
            self.update()
        return is_over

    def update(self) -> None:
        """Write new events and features; raises `UserError`. A run without events has no folder yet."""
        epoch = self._epoch()
        events, offset = read_events(self.run.events, self._offset)
        previous = self._history if offset >= self._offset else []
        names = MeasurementNames()
        history = [names.drop_excess(event) for event in drop_repeated(previous + events)]
        grew = self._encoder is not None and offset >= self._offset and history[: len(previous)] == previous
        self._offset, self._history = offset, history
        if not history:
            return
        try:
            if grew:
                self._file.append(self._encoder.encode(history[len(previous) :]))
            else:
                self._begin()
            self._write_features(epoch)
        except OSError as error:
            where = shorten(str(self.folder))
            raise UserError("into", f"{where} was not written ({error.strerror or error})") from None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _begin(self) -> None:
        self._encoder = Encoder(_tensorboard(), self.run)
        if self._file is None:
            check_place(self.folder)
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / MARK, {"to": "tensorboard", "run": self.run.id})
            self._file = EventFile(self.folder / FILE)
        self._file.replace_content(self._encoder.head(self._history[0]["time"]) + self._encoder.encode(self._history))

    def _epoch(self) -> int:
        """Return the epoch whose features are exported, -1 if there is none; raises `UserError`."""
        epochs = snapshot_epochs(self.run.snapshots)
        if self.epoch is not None and self.epoch not in epochs:
            available = f"the epochs go from {epochs[0]} to {epochs[-1]}" if epochs else "there are none yet"
            raise UserError("epoch", f"{self.epoch} has no stored predictions; {available}")
        return max(epochs, default=-1) if self.epoch is None else self.epoch

    def _write_features(self, epoch: int) -> None:
        """Write the projector's files if this epoch is not written yet."""
        if epoch == self._projector_epoch:
            return
        self._projector_epoch = epoch
        try:
            self.missing = projector.write_projector(self.folder, self.run, epoch)
        except UserError as error:
            self.missing = str(error)


class EventFile:
    """A file of records, locked for this process; raises `UserError` if another process holds it."""

    def __init__(self, path: Path):
        self._descriptor = try_lock(path)
        if self._descriptor is None:
            raise UserError("into", f"{shorten(str(path.parent))} is in use by another export")

    def append(self, data: bytes) -> None:
        """Append whole records; they are in the kernel's hands when the call returns."""
        os.lseek(self._descriptor, 0, os.SEEK_END)
        while data:
            data = data[os.write(self._descriptor, data) :]

    def replace_content(self, data: bytes) -> None:
        """Make `data`, which begins with a session, the valid content: append what the file lacks, else all."""
        stored_bytes = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        if data.startswith(stored_bytes):  # also where an export was killed in the middle of a record
            data = data[len(stored_bytes) :]
        else:
            os.ftruncate(self._descriptor, end_of_records(stored_bytes))
        self.append(data)

    def close(self) -> None:
        os.close(self._descriptor)


def end_of_records(data: bytes) -> int:
    """Return the end of the last whole record: length in 8 bytes, its checksum in 4, content, checksum in 4."""
    end = 0
    while end + 12 <= len(data):
        after = end + 16 + struct.unpack_from("<Q", data, end)[0]
        if after > len(data):
            break
        end = after
    return end


class Encoder:
    """Encoder of a run's events as TensorBoard records; equal events of the same folder give equal bytes."""

    def __init__(self, package: SimpleNamespace, run: Run):
        self._tb, self._run = package, run
        self._written_values: dict[str, object] = {}  # values of `start` events, which every attempt repeats

    def head(self, start: float) -> bytes:
        """Return the records that begin a session, with the settings. start: unix seconds."""
        session = self._tb.SessionLog(status=self._tb.SessionLog.START)
        labels = {"group_name": self._run.id, "start_time_secs": start}
        started = self._tb.SessionStartInfo(**labels, hparams=self._settings())
        value = self._hyperparameters(self._tb.hparams.SESSION_START_INFO_TAG, session_start_info=started)
        summary = self._tb.Summary(value=[value])
        parts = [{"file_version": "brain.Event:2"}, {"session_log": session}, {"summary": summary}]
        return b"".join(self._record(start, 0, **part) for part in parts)

    def _settings(self) -> dict:
        """Return the run's settings as protobuf values, empty if they cannot be read."""
        try:
            flat = self._run.config().flat()
        except UserError:
            return {}
        kinds = {bool: "bool_value", int: "number_value", float: "number_value", str: "string_value"}
        values = {key: "none" if value is None else value for key, value in flat.items()}
        return {key: self._tb.Value(**{kinds[type(value)]: value}) for key, value in values.items()}

    def encode(self, events: Sequence[dict]) -> bytes:
        """Return the records of events, at their steps and times."""
        records = []
        for event in events:
            values = [*self._event_values(event), *(self._confidences(event) if event["kind"] == "eval" else ())]
            if event["kind"] in _ENDS:
                values.append(self._end(event))
            if values:
                records.append(self._record(event["time"], event["step"], summary=self._tb.Summary(value=values)))
        return b"".join(records)

    def _record(self, time_s: float, step: int, **content) -> bytes:
        out = io.BytesIO()
        event = self._tb.Event(wall_time=time_s, step=step, **content)
        self._tb.RecordWriter(out).write(event.SerializeToString(deterministic=True))
        return out.getvalue()

    def _event_values(self, event: dict) -> Iterator:
        for name, value in event["values"].items():
            if event["kind"] == "start":
                if name in self._written_values and self._written_values[name] == value:
                    continue
                self._written_values[name] = value
            if value is None or type(value) in (int, float):
                yield self._scalar(name, value)
            elif isinstance(value, list) and not name.startswith(_OF_STEPS):
                yield from self._vector(name, value)
        if event["kind"] in ("train", "eval"):
            yield self._scalar(f"epoch/{event['kind']}", event["epoch"])

    def _vector(self, name: str, vector: list) -> Iterator:
        """Yield a histogram of the entries, and for short vectors a curve per entry."""
        numbers = np.array([item if type(item) in (int, float) else np.nan for item in vector], float)
        if np.isfinite(numbers).any():
            yield self._histogram(name, numbers[np.isfinite(numbers)], _BINS)
        if len(numbers) <= _CURVES:
            yield from (self._scalar(f"{name}/{index:02d}", number) for index, number in enumerate(numbers.tolist()))

    def _scalar(self, name: str, value: float | None):
        with np.errstate(over="ignore"):
            number = float(np.float32(np.nan if value is None else value))
        return self._tb.Summary.Value(tag=name, simple_value=number)

    def _histogram(self, name: str, numbers: np.ndarray, bins: int, span: tuple[float, float] | None = None):
        """Return rows of left end, right end and count; bins of equal width from least to greatest, or over `span`."""
        counts, edges = np.histogram(numbers, bins, span)
        buckets = self._tb.make_tensor_proto(np.stack([edges[:-1], edges[1:], counts], axis=1).astype(np.float64))
        metadata = self._tb.histogram.create_summary_metadata(display_name=None, description=None)
        return self._tb.Summary.Value(tag=name, tensor=buckets, metadata=metadata)

    def _confidences(self, event: dict) -> Iterator:
        """Yield histograms of the confidences after the epoch, over all unlabeled images and by predicted group."""
        try:
            split, _ = read_split(self._run.folder)
            network = read_assignment(self._run, event["epoch"], split)
            aligned = catalog.method_info(self._run.config().method).seen_is_aligned
        except UserError:
            return
        confidence, seen = network.confidence.astype(float), network.predicted < split.classes.seen
        parts = {"all": confidence}
        if aligned:
            parts |= {"seen": confidence[seen], "novel": confidence[~seen]}
        for name, part in parts.items():
            part = part[np.isfinite(part)]
            if len(part):
                yield self._histogram(f"confidence/{name}", part, _CONFIDENCE_BINS, (0.0, 1.0))

    def _end(self, event: dict):
        """Return the end of the session, for the table of hyperparameters."""
        status = self._tb.Status.Value(_ENDS[event["kind"]])
        end_info = self._tb.SessionEndInfo(status=status, end_time_secs=event["time"])
        return self._hyperparameters(self._tb.hparams.SESSION_END_INFO_TAG, session_end_info=end_info)

    def _hyperparameters(self, tag: str, **content):
        data = self._tb.HParamsPluginData(**content)
        metadata = self._tb.hparams.create_summary_metadata(data)
        data.version = self._tb.hparams.PLUGIN_DATA_VERSION
        metadata.plugin_data.content = data.SerializeToString(deterministic=True)  # maps have no order of their own
        return self._tb.Summary.Value(tag=tag, metadata=metadata, tensor=self._tb.hparams.NULL_TENSOR)


def _tensorboard() -> SimpleNamespace:
    """Import the needed parts of the package; raises `UserError` if it is not installed."""
    try:
        from google.protobuf.struct_pb2 import Value
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.plugins.histogram import metadata as histogram
        from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
        from tensorboard.plugins.hparams import metadata as hparams
        from tensorboard.summary.writer.record_writer import RecordWriter
        from tensorboard.util.tensor_util import make_tensor_proto
    except ModuleNotFoundError as error:
        name = error.name.partition(".")[0]
        raise UserError("to", f"tensorboard needs {name}, which is not installed: pip install tensorboard") from None
    return SimpleNamespace(
        RecordWriter=RecordWriter, Event=event_pb2.Event, SessionLog=event_pb2.SessionLog,
        Summary=summary_pb2.Summary, histogram=histogram, make_tensor_proto=make_tensor_proto,
        hparams=hparams, Value=Value, Status=api_pb2.Status, SessionStartInfo=plugin_data_pb2.SessionStartInfo,
        SessionEndInfo=plugin_data_pb2.SessionEndInfo, HParamsPluginData=plugin_data_pb2.HParamsPluginData,
    )  # fmt: skip
