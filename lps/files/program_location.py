"""Locate this program: a clone of its repository, or an installation."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
SOURCE = _PACKAGE.parent  # the folder with the package; working folder of our processes
_INSTALLED = _PACKAGE / "dashboard"  # only in built packages (pyproject.toml), never in a clone
IS_CLONE = not _INSTALLED.is_dir()
DASHBOARD = SOURCE if IS_CLONE else _INSTALLED  # the folder with app.py, pages/ and .streamlit/
