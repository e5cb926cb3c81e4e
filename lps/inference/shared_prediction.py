"""A prediction of a folder by several processes, on one machine or on machines that share runs and pictures.

The files are divided into parts of 1,024; each shard is a part. The parts are computed as in `lps.files.shared_work`,
then the first process that gets there puts them together. Both are in the folder of `prediction_job`. A part has the
same pieces as in a prediction by one process, so the result is the same.
"""

import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from lps.errors import UserError, shorten
from lps.files import disk, locks, shared_work
from lps.files.atomic import as_user_error
from lps.inference import new_pictures, prediction_files, prediction_job
from lps.inference.prediction import PredictedRows, Predictor, Report
from lps.inference.prediction_result import PredictionResult
from lps.machine import processes
from lps.machine.detached_jobs import lps_command
from lps.machine.devices import available_cores
from lps.store.runs import Run
from lps.store.snapshots import read_arrays, write_arrays
from lps.wording import counted

_ARRAYS = ("predicted", "cluster", "confidence", "distance", "near", "far")


def predict_together(
    run: Run, folder: str | os.PathLike, report: Report = lambda done, total: None, workers: int = 1
) -> PredictionResult:
    """Predict like `prediction.predict`, with the work shared by all callers for the same run and pictures.

    workers: processes of this machine, this one and those that it starts. Raises `UserError`.
    """
    processes.check_workers(workers)
    folder = new_pictures.check_source(folder)
    if isinstance(folder, np.ndarray) or not os.path.isdir(folder):
        raise UserError("pictures", "are one file or array; several processes can only predict a folder")
    arguments = ("predict", "--join", "--runs", str(run.root.resolve()), "--", run.id, os.fspath(folder))
    with processes.workers(workers - 1, lps_command(*arguments)):
        return _SharedPrediction(Predictor(run, available_cores()), Path(folder), report).predict()


class _SharedPrediction:
    def __init__(self, predictor: Predictor, folder: Path, report: Report):
        self._predictor, self._report = predictor, report
        self._path_of_page = prediction_job.prediction_path(predictor.model.run, folder)
        self._pictures = new_pictures.open_pictures(folder, predictor.model.form)
        self._path = prediction_job.prediction_path(predictor.model.run, folder, self._pictures.stamp)
        self._is_unusable = False  # all parts together, so that it is no use to keep them
        self._home = self._path.with_suffix(prediction_job.PARTS)
        self._parts = {f"{number:06d}": part for number, part in enumerate(self._pictures.parts)}

    def predict(self) -> PredictionResult:
        try:
            return self._predicted()
        except BaseException as error:
            num_finished = prediction_job.finished_parts(self._home)
            if self._is_unusable or not num_finished:
                prediction_job.forget_parts(self._home)
            else:
                parts = f"{num_finished:,} of {counted(len(self._parts), 'part')}"
                error.add_note(f"kept: {parts}; the same command continues with them")
            raise

    def _predicted(self) -> PredictionResult:
        with as_user_error("runs", f"{shorten(str(self._path.parent))} cannot be used"):
            stored = prediction_files.read_if_sound(self._path)
            if stored is None and self._path.exists():  # damaged
                prediction_job.delete_result(self._path)
            prediction_job.forget_old(self._path.parent, self._path.suffix)
            if stored is not None:
                return stored
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locks.hold_together(self._home / prediction_job.IN_USE):
                names = tuple(self._parts)
                shared_work.compute_parts(
                    self._home, names, self._is_done, self._compute, self._path.exists, self._report_progress
                )
                with locks.folder_lock(self._path.parent):
                    if not self._path.exists():  # else another process has put the parts together
                        self._join_parts()
            return prediction_files.read_predictions(self._path)

    def _file(self, name: str) -> Path:
        return self._home / name / prediction_job.ROWS

    def _is_done(self, name: str) -> bool:
        return self._file(name).exists()

    def _report_progress(self) -> bool:
        """Report the pictures of all processes (of shards, those of this one); never ask to stop."""
        self._report(
            sum(part.count or len(part.names) for name, part in self._parts.items() if self._is_done(name)),
            self._pictures.count,
        )
        return False

    def _compute(self, name: str) -> bool:
        part = self._parts[name] = replace(self._parts[name], names=[], skipped=[])
        rows = list(self._predictor.parts(part.make(part), part))
        columns = vars(PredictedRows.joined(rows)) if rows else {}
        names_json = json.dumps([part.names, part.skipped]).encode("utf-8", "surrogatepass")
        arrays = {stored: columns[name] for stored, name in zip(_ARRAYS, PredictedRows.COLUMNS) if columns}
        write_arrays(self._file(name), about=np.frombuffer(names_json, np.uint8), **arrays)
        return not self._report_progress()

    def _read(self, name: str) -> tuple[PredictedRows | None, list[tuple[str, str]]]:
        """Return the rows of a part and the files that it left out; raises `UserError` if it is missing or damaged."""
        arrays = read_arrays(self._file(name), ("about",), optional=_ARRAYS)
        files, skipped = json.loads(arrays.pop("about").tobytes().decode("utf-8", "surrogatepass"))
        rows = PredictedRows(tuple(files), *(arrays[stored] for stored in _ARRAYS)) if files else None
        return rows, [(str(file), str(reason)) for file, reason in skipped]

    def _join_parts(self) -> None:
        """Write the result and remove the parts."""
        pictures, parts = self._pictures, []
        for name in self._parts:
            try:
                rows, skipped = self._read(name)
            except UserError:  # damaged
                self._compute(name)
                rows, skipped = self._read(name)
            parts += [rows] if rows is not None else []
            pictures.skipped += skipped
        self._is_unusable = True
        pictures.check_count(sum(len(rows.files) for rows in parts))
        self._is_unusable = False
        prediction_files.write(self._path, self._predictor.with_names(PredictedRows.joined(parts), pictures))
        with suppress(OSError):  # a page has it already, or the file system has no hard links
            disk.link(self._path, self._path_of_page)
        disk.remove_folder(self._home)
