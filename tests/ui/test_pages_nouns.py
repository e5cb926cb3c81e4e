"""Pages call what vectors stand for items, not pictures; they call pictures what they are."""

import re
from dataclasses import replace

import pytest

from lps.settings import catalog
from lps.ui.pictures import nouns
from tests.sample_runs import make_run
from tests.visiting import visit

_TEXT = re.compile(r'^\s*(?:label|body|help|placeholder|options|caption|text): "(.*)"$', re.MULTILINE)
_NOT_TOLD = re.compile(  # icons, addresses and keys; links to pages for every kind of data
    r":material/\w+:|/pictures/\S*|\\\"\w+\\\":|(?:My|Add|Own) pictures|Browse or upload pictures"
)


def told(at) -> list[str]:
    """Every text of the page, with labels, help texts and options."""
    texts, left = [], [at.main]
    while left:
        element = left.pop()
        left += getattr(element, "children", {}).values()
        if proto := getattr(element, "proto", None):
            texts += _TEXT.findall(str(proto))
    return [_NOT_TOLD.sub("", text) for text in texts]


@pytest.mark.parametrize(
    ("page", "more"),
    [
        ("clusters", {}),
        ("clusters", {"image": "900", "overview": "confusion"}),
        ("review", {}),
        ("projection", {"image": "900"}),
        ("launch", {}),
    ],
)
def test_a_page_speaks_of_items_where_the_data_set_has_no_pictures(tmp_path, monkeypatch, page, more):
    described = catalog.dataset_info
    monkeypatch.setattr(catalog, "dataset_info", lambda name: replace(described(name), noun="item"))
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    run = make_run(tmp_path, epochs=3)
    texts = told(visit(page, **(more if page == "launch" else {"run": run.id} | more)))
    assert any(re.search(r"\bitems?\b", text, re.IGNORECASE) for text in texts)
    titles = set(catalog.dataset_titles().values())  # options of a box
    assert [text for text in texts if re.search(r"\b(picture|image)s?\b", text, re.I) and text not in titles] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Click a picture. Tick two images.", "Click an item. Tick two items."),
        ("An image; Images of it; each picture", "An item; Items of it; each item"),
        ("a pictured imagery", "a pictured imagery"),
    ],
)
def test_nouns_keep_number_case_and_article(text, expected):
    assert nouns.replace_noun(text, "item") == expected
    assert nouns.of_dataset("embeddings")(text) == expected
    assert nouns.of_dataset("digits")(text) == text == nouns.of_dataset("gone")(text)
    assert nouns.replace_noun("An item or a picture", "vector") == "An item or a vector"


def test_only_vectors_are_no_pictures():
    assert {name for name in catalog.dataset_names() if catalog.dataset_info(name).noun != "picture"} == {"embeddings"}
