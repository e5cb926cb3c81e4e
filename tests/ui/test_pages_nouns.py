"""Pages call what vectors stand for items, not pictures; they call pictures what they are."""

import re
import shutil

import pytest

from lps.settings import catalog
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.training import loop
from lps.ui.shared import nouns
from tests import vector_files
from tests.visiting import visit

_TEXT = re.compile(r'^\s*(?:label|body|help|placeholder|options|caption|json|text): "(.*)"$', re.MULTILINE)
_NOT_TOLD = re.compile(  # icons, addresses and keys; the menu and links to pages for every kind of data
    r":material/\w+:|/pictures/\S*|\\\"\w+\\\":|My pictures|Add pictures|2,000 pictures of CIFAR-10"
)


@pytest.fixture(scope="module")
def on_vectors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    path = vector_files.npz(folder / "birds.npz")
    own = {"dataset": "embeddings", "dataset.path": str(path), "device": "cpu", "threads": 1, "split.num_novel": 1}
    run = create_run(folder / "runs", configure(own | {"epochs": 1, "batch_size": 32}))
    assert loop.RunTraining(run).carry_out() == 0
    return run


def told(at) -> list[str]:
    """Every text of the page, with labels, help texts and options."""
    texts, left = [], [at.main]
    while left:
        element = left.pop()
        left += getattr(element, "children", {}).values()
        if proto := getattr(element, "proto", None):
            texts += _TEXT.findall(str(proto))
    return [_NOT_TOLD.sub("", text) for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "more"),
    [
        ("clusters", {}),
        ("clusters", {"image": "11", "overview": "confusion"}),
        ("review", {}),
        ("projection", {"image": "11"}),
        ("predict", {}),
        ("live", {}),
        ("launch", {"view": "everything"}),
    ],
)
def test_vectors_are_items(on_vectors, tmp_path, monkeypatch, page, more):
    for variable in ("HOME", "LPS_PICTURES"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    run = Run(shutil.copytree(on_vectors.folder, tmp_path / "runs" / on_vectors.id))
    more = {"from": run.id} | more if page == "launch" else {"run": run.id} | more
    texts = told(visit(page, **more))
    assert len(texts) > 5
    assert [text for text in texts if re.search(r"\b(picture|image)s?\b", text, re.IGNORECASE)] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Click a picture. Tick two images.", "Click an item. Tick two items."),
        ("An image; Images of it; each picture", "An item; Items of it; each item"),
        ("a pictured imagery", "a pictured imagery"),
    ],
)
def test_nouns_keep_number_case_and_article(text, expected):
    assert nouns.named(text, "item") == expected
    assert nouns.of_dataset("embeddings")(text) == expected
    assert nouns.of_dataset("digits")(text) == text == nouns.of_dataset("gone")(text)
    assert nouns.named("An item or a picture", "vector") == "An item or a vector"


def test_only_vectors_are_no_pictures():
    assert {name for name in catalog.dataset_names() if catalog.dataset_info(name).noun != "picture"} == {"embeddings"}
