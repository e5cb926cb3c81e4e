"""Watch a folder: predict new files, and report each possible novel class once.

A file is read when two checks found the same size and times, so a half-written file is never read. A file that was
not a picture is read again when its size or a time changes. Nothing in the folder is changed.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from lps.datasets import quoted
from lps.datasets.readers.pictures import Listing
from lps.errors import UserError
from lps.files.atomic import as_user_error, clean_line
from lps.files.versions import MAX_IMAGES
from lps.inference import new_pictures
from lps.inference.prediction import PredictedRows, Predictor
from lps.inference.prediction_result import NONE, PredictionResult
from lps.interop.notifications import Message
from lps.store import titles
from lps.store.runs import Run
from lps.wording import counted

_SAME = 0.5  # share of pictures reported before from which a kind counts as reported


@dataclass(frozen=True)
class NewPredictions:
    """New predictions since the last check.

    prediction: of all pictures so far. first: row of the first new one. kinds: the new possible novel classes.
    """

    prediction: PredictionResult
    first: int
    kinds: tuple[tuple[int, ...], ...]

    def in_words(self, threshold: float) -> list[str]:
        """Describe the new pictures in a line, and each new possible novel class in another."""
        is_none, names = self.prediction.is_none(threshold).tolist(), self.prediction.names()
        called = Counter(NONE if is_none[row] else names[row] for row in range(self.first, len(names)))
        counts = ", ".join(f"{count:,} {name}" for name, count in called.most_common())
        arrived = counted(len(names) - self.first, "new picture")
        return [f"{arrived}: {counts}", *map(self.prediction.kind_in_words, self.kinds)]

    def messages(self) -> list[Message]:
        """Return the same messages for notifications, without names of files."""
        title = f"possible novel class ({titles.short_id(self.prediction.run)})"
        body = "{:,} new pictures are similar to each other and to no class of the run"
        folder = self.prediction.root or ""
        return [Message("new class", title, body.format(len(kind)), folder) for kind in self.kinds]


class FolderWatch:
    """One run that checks one folder repeatedly.

    Raises `UserError` if the run has no weights or the folder does not exist.
    """

    def __init__(self, run: Run, folder: Path):
        new_pictures.check_source(str(folder))
        if not folder.is_dir():
            raise UserError("pictures", f"{quoted(str(folder))} is not a folder; only a folder can be watched")
        self._folder, self._predictor = folder, Predictor(run)
        if self._predictor.model.form.are_vectors:
            raise UserError("pictures", "cannot be watched: this run was trained on vectors; predict one file of them")
        self._rows: PredictedRows | None = None
        self._settled: dict[str, list[int]] = {}  # files that were read
        self._arriving: dict[str, list[int]] = {}  # files found at the last check, not read yet
        self._skipped: dict[str, str] = {}  # reasons why files are no pictures
        self._reported: set[str] = set()  # files of reported kinds

    def check(self, at_once: bool = False) -> NewPredictions | None:
        """Return new predictions, or None; raises `UserError`. at_once: do not wait until files are complete."""
        listing = Listing(self._folder)
        with as_user_error("pictures", f"{quoted(str(self._folder))} cannot be read"):
            listing.add(self._folder, -1)
        files_due = {name: stamp for name, *stamp in listing.files if self._is_due(name, stamp)}
        ready = [name for name, stamp in files_due.items() if at_once or self._arriving.get(name) == stamp]
        self._arriving = files_due
        if not ready:
            return None
        if len(self._settled) + len(ready) > MAX_IMAGES:
            raise UserError("pictures", f"are more than {MAX_IMAGES:,}; watch another folder")
        return self._predict(ready)

    def _is_due(self, name: str, stamp: list[int]) -> bool:
        """Return whether a file has not been read yet, or was not a picture and has changed since."""
        return name not in self._settled or (clean_line(name, 1000) in self._skipped and self._settled[name] != stamp)

    def _predict(self, files: list[str]) -> NewPredictions | None:
        pictures = new_pictures.open_files(self._folder, files, self._predictor.model.form)
        first = len(self._rows.files) if self._rows else 0
        try:
            rows = self._predictor.rows(pictures)
            self._rows = rows if self._rows is None else PredictedRows.joined([self._rows, rows])
        except UserError:
            if pictures.names:
                raise
        self._settled |= {name: self._arriving[name] for name in files}
        for name in files:
            self._skipped.pop(clean_line(name, 1000), None)
        self._skipped |= dict(pictures.skipped)
        if not pictures.names:
            return None
        pictures.skipped = list(self._skipped.items())
        predicted = self._predictor.with_names(self._rows, pictures)
        kinds = tuple(kind for kind in predicted.kinds if self._is_unreported(predicted, kind))
        return NewPredictions(predicted, first, kinds)

    def _is_unreported(self, predicted: PredictionResult, kind: tuple[int, ...]) -> bool:
        files = {predicted.files[row] for row in kind}
        was_reported = len(files & self._reported) >= _SAME * len(files)
        self._reported |= files
        return not was_reported
