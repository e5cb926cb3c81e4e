"""The documentation site: it builds without a warning, loads nothing from other hosts, and knows every command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lps.settings import catalog, config

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?([^\"'\s>]+)|<link[^>]*\shref=[\"']?([^\"'\s>]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=280, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_no_page_loads_anything_from_another_host(site):
    pages = list(site.rglob("*.html"))
    loaded = {address for page in pages for found in LOADED.findall(page.read_text("utf-8")) for address in found}
    assert len(pages) > 10 and any("vendor/iframe-worker.js" in address for address in loaded)
    assert [address for address in loaded if re.match(r"(?:https?:)?//", address)] == []
    sheets = "\n".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\([\"']?(?:https?:)?//[^)]*", sheets) == []


def test_every_equation_is_mathml(site):
    pages = {page.name: page.read_text("utf-8") for page in (site / "concepts").glob("*.html")}
    assert pages["methods.html"].count("<math") >= len(catalog.method_names())
    assert [name for name, text in pages.items() if "arithmatex" in text or "$$" in text] == []


def test_the_reference_has_every_command_and_every_setting(site):
    commands = (site / "reference" / "commands.html").read_text("utf-8")
    settings = (site / "reference" / "settings.html").read_text("utf-8")
    assert all(f'id="{name}"' in commands for name in ("train", "launch", "sweep", "export", "predict"))
    names = [*config.protocol_parameters(), *catalog.method_info("lps").parameters]
    assert [name for name in names if f"<code>{name}</code>" not in settings] == []
