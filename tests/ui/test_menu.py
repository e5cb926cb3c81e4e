"""A file in pages/ is a page, says itself how it stands in the menu, and harms nobody where it is broken."""

import shutil

import pytest

from lps.store.run_folders import delete_run
from lps.ui.server import menu, serving
from tests.sample_runs import make_run
from tests.visiting import Visit, visit, words_of

PAGE = """
import streamlit as st

from lps.ui.server import routing

TITLE = "Mine"
ICON = ":material/star:"
GROUP = "Learn"
PLACE = 28

routing.show_page(lambda: st.title("This is mine"))
"""
BROKEN = {
    "no syntax": ("TITLE = ", "pages/mine.py cannot be read (invalid syntax (<unknown>, line 1))"),
    "no text": (b"\xff\xfe\x00", "pages/mine.py cannot be read ('utf-8' codec can't decode"),
    "nothing said": ("", "pages/mine.py lacks TITLE; expected a constant as in pages/live.py"),
    "computed": (PAGE.replace("28", "len(ICON)"), "pages/mine.py cannot be read (malformed node"),
    "a kind": (PAGE.replace("28", '"first"'), "pages/mine.py has PLACE = 'first'; expected int"),
    "an icon": (PAGE.replace("star", "nothing_such"), "pages/mine.py has ICON = ':material/nothing_such:', exp"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of pages/ that the menu reads."""
    shutil.copytree(menu.FOLDER, tmp_path / "pages")
    monkeypatch.setattr(menu, "FOLDER", tmp_path / "pages")
    return tmp_path / "pages"


def opened(folder, page: str) -> Visit:
    """The page of an app that has nothing but the menu."""
    code = "from lps.ui.server import menu; import streamlit as st; menu.run_page(st.navigation(menu.list_pages()))"
    (folder.parent / "app.py").write_text(code)
    at = Visit(str(folder.parent / "app.py"), default_timeout=60).run()
    at.switch_page(f"pages/{page}.py").run()
    assert not at.exception
    return at


def test_every_file_of_the_folder_is_a_sound_page_in_the_menu():
    found = menu.read_entries()
    assert {entry.path for entry in found} == set(menu.FOLDER.glob("*.py"))
    assert not [entry.broken for entry in found if entry.broken]
    assert found[0].path.stem == "home"
    assert len({entry.place for entry in found}) == len(found)
    groups = [entry.group for entry in found]
    assert list(dict.fromkeys(groups)) == ["", "Learn", "My pictures", "Experiments"]
    assert groups == sorted(groups, key=groups.index)


def test_the_address_of_a_page_that_is_gone_leads_to_the_one_that_has_its_place():
    """`browser/test_pages_browser.py` follows one."""
    assert not {*menu._REDIRECTS} & {entry.path.stem for entry in menu.read_entries()}
    assert {*menu._REDIRECTS.values()} <= {entry.path.stem for entry in menu.read_entries()}


def test_one_new_file_is_a_page(folder):
    (folder / "mine.py").write_text(PAGE)
    assert [e.name for e in menu.read_entries()][2:5] == ["explain", "mine", "pace"]
    assert "mine" not in menu.pages_with_charts()
    (folder / "mine.py").write_text(PAGE.replace("PLACE = 28", "PLACE = 28\nCHARTS = True"))
    assert "mine" in menu.pages_with_charts()
    assert "This is mine" in words_of(opened(folder, "mine"))


def test_nine_places_have_all_pages():
    titles = [entry.menu or entry.title for entry in menu.read_entries()]
    assert list(dict.fromkeys(titles)) == [
        "Home", "How it works", "Race", "Add pictures", "Clusters", "Predict", "Launch", "Runs", "Analyze",
    ]  # fmt: skip
    assert all(entry.tab == (entry.title if entry.menu else "") for entry in menu.read_entries())
    by_menu = {entry.menu: entry.group for entry in menu.read_entries() if entry.menu}
    assert all(by_menu[entry.menu] == entry.group for entry in menu.read_entries() if entry.menu)


@pytest.mark.parametrize("page", ["compare", "effects"])
def test_the_entry_of_tabs_leads_to_the_first_one_and_is_marked_on_all(folder, page):
    at = opened(folder, page)
    assert ["/compare" in html.proto.body for html in at.get("html") if "stSidebarNavLink" in html.proto.body] == [True]


def test_the_first_tab_alone_stands_in_the_menu(monkeypatch):
    monkeypatch.setattr(menu.st, "Page", lambda path, **about: about)
    analyze = [
        about["visibility"] for group in menu.list_pages().values() for about in group if about["title"] == "Analyze"
    ]
    assert analyze == ["visible", "hidden", "hidden"]


def test_tabs_keep_the_run_and_the_filters(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    assert "Map" not in [link.proto.label for link in visit("predict").get("page_link")], "it has no tabs"
    runs = [make_run(tmp_path / "runs", epochs=2, seed=seed) for seed in range(2)]
    at = visit("clusters", run=runs[0].id, epoch="1", order="shuffled")
    links = {link.proto.label: link.proto.query_string for link in at.get("page_link")}
    for tab in ("Clusters", "Review", "Map"):
        assert links[tab] == f"run={runs[0].id}&epoch=1"
    assert visit("review", run=runs[0].id).title[0].value == "Review"


def test_analyze_opens_with_the_runs_that_were_chosen_last(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    runs = [make_run(tmp_path / "runs", epochs=2, seed=seed) for seed in range(3)]
    chosen = [run.id for run in runs[:2]]

    def turn(page: str) -> None:
        at.query_params.clear()
        at.switch_page(f"pages/{page}.py").run()
        if not at.title:  # the page waits for the browser's first answer
            at.run()
        assert not at.exception

    at = visit("compare", run=chosen, protocol="strict", curve="kl")
    turn("launch")
    turn("compare")
    assert at.query_params == {"run": chosen, "protocol": "strict", "curve": "kl"}
    links = {link.proto.label: link.proto.query_string for link in at.get("page_link")}
    assert links["Charts"] == f"run={chosen[0]}&run={chosen[1]}&protocol=strict"
    turn("home")
    delete_run(runs[0])
    turn("charts")
    assert at.query_params == {"run": chosen[1], "protocol": "strict"}, "what tabs share"
    turn("charts")
    assert not at.query_params, "the page itself begins anew"
    turn("home")
    turn("compare")
    assert not at.query_params


@pytest.mark.parametrize("text, reason", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_listed_with_its_reason(folder, text, reason):
    (folder / "mine.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    last = menu.read_entries()[-1]
    assert (last.group, last.title) == ("Broken", "Mine") and f"page: {reason}" in last.broken
    assert reason in words_of(opened(folder, "mine"))


def test_a_name_that_no_address_has_is_refused(folder):
    (folder / "my page.py").write_text(PAGE)
    assert "is not a page name; expected only letters, digits and _" in menu.read_entries()[-1].broken


def test_links_to_a_broken_page_lead_to_its_reason(folder, monkeypatch):
    """Home links to it: it must not fall with it."""
    (folder / "launch.py").write_text("TITLE =")
    monkeypatch.setenv("LPS_RUNS", str(folder.parent / "runs"))
    assert opened(folder, "home").title[0].value.startswith("Watch a model")


def test_a_module_that_cannot_be_imported_does_not_keep_the_server_from_starting(monkeypatch):
    asked = []

    def refuse(name):
        asked.append(name)
        raise ImportError(name)

    monkeypatch.setattr(serving.importlib, "import_module", refuse)
    serving._import_pages()
    assert {"lps.ui.live.page", "lps.ui.shared.plot"} <= set(asked)
