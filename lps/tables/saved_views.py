"""Save views by name for one folder of runs: views of the page Runs and boards of charts, in one small JSON file each.

A file may come from elsewhere: entries in it that are not of the right form are ignored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lps.errors import UserError, shorten
from lps.files import versions
from lps.files.atomic import as_user_error, clean_line, read_json, write_json
from lps.files.locks import folder_lock

MAX_VIEWS = 200  # names in a file
_LONGEST_NAME = 60  # characters


@dataclass(frozen=True)
class SavedViews:
    """The file `name` in the folder `root`, of the form `kind` (lps.files.versions).

    sound: checks that a value is a valid view.
    """

    root: Path
    name: str
    kind: str
    sound: Callable[[object], bool]

    def read_views(self) -> dict[str, object]:
        """Return the saved views by name in alphabetical order; empty if the file is missing or damaged."""
        try:
            stored = self._stored()
        except UserError:
            return {}
        return {name: stored[name] for name in sorted(stored, key=str.casefold)}

    def save(self, name: str, value: object) -> str:
        """Save `value` under a name, replacing an earlier one, and return the cleaned name; raises `UserError`."""
        cleaned = clean_line(name, _LONGEST_NAME + 1)
        if not cleaned or len(cleaned) > _LONGEST_NAME:
            raise UserError("name", f"{shorten(name)} is not a name of 1 to {_LONGEST_NAME} characters")
        self._change(lambda stored: stored | {cleaned: value})
        return cleaned

    def delete(self, name: str) -> None:
        """Delete the view of this name."""
        self._change(lambda stored: {key: value for key, value in stored.items() if key != name})

    def _change(self, change: Callable[[dict], dict]) -> None:
        with as_user_error(self.kind, f"{self.name} cannot be written"):
            self.root.mkdir(parents=True, exist_ok=True)
            with folder_lock(self.root):
                changed = change(self._stored())
                if len(changed) > MAX_VIEWS:
                    raise UserError(self.kind, f"{MAX_VIEWS} views are already saved; delete one first")
                write_json(self.root / self.name, versions.with_version(self.kind, {"kept": changed}))

    def _stored(self) -> dict[str, object]:
        """Read the file; raises `UserError` only for a file of a newer program, which must not be overwritten."""
        stored = read_json(self.root / self.name)
        versions.check_version(self.kind, stored.get("version"), self.name)
        views = stored.get("kept")
        named = views.items() if isinstance(views, dict) else ()
        return {key: value for key, value in named if key == clean_line(key, _LONGEST_NAME) and self.sound(value)}


def run_views(root: Path) -> SavedViews:
    """Return the views of the page Runs: values by parameter of the address."""
    return SavedViews(root, ".views.json", "views", _is_view)


def chart_boards(root: Path) -> SavedViews:
    """Return the boards of the page Charts, in the same form."""
    return SavedViews(root, ".boards.json", "boards", _is_view)


def _is_view(value: object) -> bool:
    """Return whether a value holds parameters of an address, each with its texts."""
    if not isinstance(value, dict) or len(value) > 40:
        return False
    texts = [text for several in value.values() if isinstance(several, list) for text in several]
    is_listed = all(isinstance(several, list) and len(several) <= 100 for several in value.values())
    return is_listed and all(isinstance(text, str) and len(text) <= 1000 for text in (*value, *texts))
