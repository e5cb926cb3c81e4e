"""What people keep by name for one folder of runs: views of the page Runs, boards of charts. One small JSON file each.

A file may come with runs from elsewhere: whatever in it is not of the right form counts as not there.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lps.errors import UserError, shorten
from lps.files import versions
from lps.files.atomic import as_user_error, clean_line, read_small, write_json
from lps.files.locks import folder_lock

MOST = 200  # names in a file
_LONGEST_NAME = 60  # characters


@dataclass(frozen=True)
class SavedViews:
    """The file `name` in the folder `root`, of the form `kind` (lps.files.versions).

    sound: whether a value is one of those that are kept here.
    """

    root: Path
    name: str
    kind: str
    sound: Callable[[object], bool]

    def read_views(self) -> dict[str, object]:
        """What is kept, by name in alphabetical order; empty if the file is missing or damaged."""
        try:
            stored = self._stored()
        except UserError:
            return {}
        return {name: stored[name] for name in sorted(stored, key=str.casefold)}

    def put(self, name: str, value: object) -> str:
        """Keep `value` under a name, in place of what had it; gives the name as it is kept. Raises `UserError`."""
        called = clean_line(name, _LONGEST_NAME + 1)
        if not called or len(called) > _LONGEST_NAME:
            raise UserError("name", f"{shorten(name)} is not a name of 1 to {_LONGEST_NAME} characters")
        self._change(lambda stored: stored | {called: value})
        return called

    def drop(self, name: str) -> None:
        """Forget what is called so."""
        self._change(lambda stored: {key: value for key, value in stored.items() if key != name})

    def _change(self, change: Callable[[dict], dict]) -> None:
        with as_user_error(self.kind, f"{self.name} cannot be written"):
            self.root.mkdir(parents=True, exist_ok=True)
            with folder_lock(self.root):
                changed = change(self._stored())
                if len(changed) > MOST:
                    raise UserError(self.kind, f"{MOST} views are already saved; delete one first")
                write_json(self.root / self.name, versions.with_version(self.kind, {"kept": changed}))

    def _stored(self) -> dict[str, object]:
        """Raises `UserError` for the file of a newer program alone, which must not be written over."""
        try:
            stored = json.loads(read_small(self.root / self.name))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(stored, dict):
            return {}
        versions.check_version(self.kind, stored.get("version"), self.name)
        views = stored.get("kept")
        named = views.items() if isinstance(views, dict) else ()
        return {key: value for key, value in named if key == clean_line(key, _LONGEST_NAME) and self.sound(value)}


def run_views(root: Path) -> SavedViews:
    """Views of the page Runs: parameter of the address -> its values."""
    return SavedViews(root, ".views.json", "views", _is_view)


def chart_boards(root: Path) -> SavedViews:
    """Boards of the page Charts, in the same form."""
    return SavedViews(root, ".boards.json", "boards", _is_view)


def _is_view(value: object) -> bool:
    """Parameters of an address, each with its texts."""
    if not isinstance(value, dict) or len(value) > 40:
        return False
    texts = [text for several in value.values() if isinstance(several, list) for text in several]
    is_listed = all(isinstance(several, list) and len(several) <= 100 for several in value.values())
    return is_listed and all(isinstance(text, str) and len(text) <= 1000 for text in (*value, *texts))
