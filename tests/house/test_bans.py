"""Forbidden code, found in syntax trees: code that runs content of files or input of users."""

import ast
from pathlib import Path

import pytest

from tests.house.sources import nodes_of

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [*(ROOT / "lps").rglob("*.py"), *(ROOT / "pages").glob("*.py"), ROOT / "app.py"]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in SOURCES}

MODULES = {
    "pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "multiprocessing", "requests", "httpx",
    "aiohttp", "urllib.request", "urllib3", "http.client", "ftplib", "telnetlib", "yaml",
}  # fmt: skip
CALLS = {
    "eval", "exec", "__import__", "os.system", "os.popen", "os.fork", "os.forkpty", "tempfile.mktemp", "yaml.load",
    "fcntl.lockf", "st.html", "st.iframe", "np.fromfile", "numpy.fromfile",
    "st.switch_page",
    *(f"{v1}.{name}" for v1 in ("v1", "components", "st.components.v1", "streamlit.components.v1")
      for name in ("html", "iframe", "declare_component")),
}  # fmt: skip
KEYWORDS = {"shell": True, "unsafe_allow_html": True, "unsafe_allow_javascript": True, "allow_pickle": True}
SIGNALS = {"os.kill", "os.killpg", "signal.pidfd_send_signal"}
# Where one of them may stand after all, and why.
EXCEPT = {
    ("lps/machine/processes.py", "os.kill"): "its own descendants",
    ("lps/machine/processes.py", "os.killpg"): "the group of its own child, on systems without /proc",
    ("lps/scheduler/launcher.py", "signal.pidfd_send_signal"): "what a dead runner left, by a handle of this pid alone",
    ("lps/training/ranks.py", "os.kill"): "itself",
    ("lps/files/limited_process.py", "os.fork"): "reads one file under limits and ends, where torch is loaded already",
    ("lps/files/limited_process.py", "os.kill"): "its own child, before it is waited for",
    ("lps/data/index_files.py", "pickle"): "an Unpickler of arrays of NumPy alone (tests/data/test_index_files.py)",
    ("lps/ui/pictures/frames.py", "st.html"): "pictures as data; words go through html.escape (test_hostile_text.py)",
    ("lps/ui/shared/export_buttons.py", "st.html"): "an address and words of ours, through html.escape",
    ("lps/ui/live/cards.py", "st.html"): "words of ours and numbers, through html.escape",
    ("lps/ui/server/presentation.py", "st.html"): "a style sheet of ours, without a value in it",
    ("lps/ui/server/menu.py", "st.html"): "a style sheet of ours with the name of a page: letters, digits and _",
    ("lps/ui/server/routing.py", "st.switch_page"): "the one way out of a page",
}


def dotted(node) -> str:
    """a.b.c of an attribute chain, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def banned(source: str, path: str = "lps/x.py") -> list[str]:
    """What stands in `source` that must not."""
    found = []
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            found += [name for name in names if _is_banned_module(name) and (path, name) not in EXCEPT]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found += [name for name in names if _is_banned_module(name) or name in CALLS | SIGNALS]
        elif isinstance(node, ast.Call):
            found += _in_call(node, path)
    return found


def _is_banned_module(name: str) -> bool:
    return any(name == module or name.startswith(module + ".") for module in MODULES)


def _in_call(call: ast.Call, path: str) -> list[str]:
    name = dotted(call.func)
    found = [name] if name in CALLS | SIGNALS and (path, name) not in EXCEPT else []
    given = {word.arg: word.value for word in call.keywords}
    for word, value in KEYWORDS.items():
        # Only a literal False is known to be harmless.
        if word in given and not (isinstance(given[word], ast.Constant) and given[word].value is (not value)):
            found.append(word)
    if name == "torch.load" or "weights_only" in given:
        literal = given.get("weights_only")
        if not (isinstance(literal, ast.Constant) and literal.value is True):
            found.append("torch.load without weights_only=True")
    if name in ("np.load", "numpy.load") and "allow_pickle" not in given:
        found.append("np.load without allow_pickle=False")
    return found


def test_nothing_dangerous_is_used():
    assert {place: found for place, text in TEXTS.items() if (found := banned(text, place))} == {}


def test_every_exception_is_still_needed():
    for path, name in EXCEPT:
        assert name in banned((ROOT / path).read_text(encoding="utf-8"), "lps/x.py")


@pytest.mark.parametrize("path", sorted((ROOT / "lps").rglob("*.js")), ids=lambda path: path.name)
def test_our_scripts_make_no_markup_and_no_code_of_text(path):
    words = (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "fetch(",
        "http:",
    )
    found = [word for word in words if word in path.read_text(encoding="utf-8")]
    asking = ("outbox.js", "point_map.js", "scroll_gallery.js")  # for Review and columns, which are on this server
    assert found == (["fetch("] if path.name in asking else [])


BANNED = """import pickle
import urllib.request
from urllib import request
from multiprocessing import Process
subprocess.run(x, shell=True)
subprocess.run(x, shell=flag)
st.markdown(x, unsafe_allow_html=True)
st.html(x)
st.switch_page("pages/live.py")
components.html(x)
v1.html(x)
np.load(path)
np.load(path, allow_pickle=True)
torch.load(path)
torch.load(path, weights_only=False)
torch.load(path, weights_only=safe)
yaml.load(x)
import yaml
fcntl.lockf(f, 1)
from fcntl import lockf
from os import kill
os.kill(1, 9)
os.system("x")
eval("1")
exec(code)"""


def test_the_ban_bites():
    assert not [line for line in BANNED.splitlines() if not banned(line)]


def test_the_ban_lets_pass_what_is_safe():
    safe = "np.load(p, allow_pickle=False)\ntorch.load(p, weights_only=True)\nsubprocess.run(a, shell=False)\n"
    assert banned(safe + "from urllib.parse import quote\nimport subprocess\nst.markdown(x)") == []
    assert banned("os.kill(1, 9)", "lps/machine/processes.py") == []


# Whoever reads or writes files of a run, which a stranger may have made links or pipes of: by `lps.files.atomic` alone.
READERS = """api machine/detached_jobs scheduler/log_file store/events store/event_follower cli/_follow
analysis/labels analysis/naming analysis/projection store/events_tail store/runs store/run_folders
store/score_cache store/snapshots store/summary charts/event_log ui/shared/history ui/live/sections
ui/pictures/predictions"""
READERS = [ROOT / "lps" / f"{name}.py" for name in READERS.split()]
OPENERS = ("open", "read_text", "read_bytes", "write_text", "write_bytes", "fromfile", "memmap")
SAFE_TO_OPEN = {"score_cache.py: path.read_bytes"}  # sources of ours


def opened(source: str) -> list[str]:
    """Calls that open a file by themselves."""
    calls = [dotted(node.func) for node in nodes_of(source) if isinstance(node, ast.Call)]
    return [name for name in calls if name.rpartition(".")[2] in OPENERS]


def test_files_of_runs_are_opened_by_what_follows_no_link_and_waits_for_no_pipe():
    found = {f"{path.name}: {name}" for path in READERS for name in opened(path.read_text(encoding="utf-8"))}
    assert found - SAFE_TO_OPEN == set()


def test_the_rule_of_open_files_bites():
    for line in ("open(path)", "os.open(path, 0)", "path.open()", "run.log.read_text()", "x = run.events.read_bytes()"):
        assert opened(line)
    assert opened("open_regular(path)\nread_small(path)") == []


def created(source: str) -> list[str]:
    """Calls of `os.open` that may create a file and would follow a link to it, and calls that always do."""
    found = []
    for call in (node for node in nodes_of(source) if isinstance(node, ast.Call)):
        name = dotted(call.func)
        if name == "os.open" or name.rpartition(".")[2] == "touch":
            text = ast.unparse(call)
            is_safe = "O_CREAT" not in text or "O_EXCL" in text or "O_NOFOLLOW" in text
            found += [] if name == "os.open" and is_safe else [text]
    return found


def test_no_file_is_made_where_a_link_leads():
    assert {place: found for place, text in TEXTS.items() if (found := created(text))} == {}


def test_the_rule_of_made_files_bites():
    assert created("os.open(p, os.O_RDWR | os.O_CREAT)") and created("run.lock.touch(mode=0o600)")
    assert not created("os.open(p, os.O_CREAT | os.O_NOFOLLOW)\nos.open(p, os.O_RDONLY)")


# Text that comes from people or files, by the names it has in the program.
FOREIGN = set("reason title run_title label run_label notes note tags tag meta line message error query".split())
MARKDOWN = {
    "markdown", "caption", "title", "header", "subheader", "write", "success", "error", "warning", "info", "toast",
    "button", "checkbox", "toggle", "radio", "metric", "expander", "popover", "tabs", "badge", "page_link",
    "link_button", "download_button", "text_input", "selectbox", "multiselect", "pills", "segmented_control",
    "progress", "spinner", "status", "dialog", "form_submit_button", "menu_button",
}  # fmt: skip
ESCAPES = {"escape.markdown", "escape.sentence"}
OURS = {  # words of the program under such a name
    "ui/story/page.py: st.markdown: title",
    "ui/live/sections.py: st.markdown: title",
    "ui/search/page.py: st.markdown: label",
    "ui/shared/page_head.py: st.page_link: title.lower()",
    "ui/shared/page_head.py: st.info: markdown(titles.run_label(empty_runs[0]))",  # escape.markdown
}


def raw_text(source: str) -> list[str]:
    """Calls that read markdown and are given an f-string with foreign text in it that is not escaped."""
    found = []
    for call in nodes_of(source):
        name = dotted(call.func) if isinstance(call, ast.Call) else ""
        base, _, method = name.rpartition(".")
        if method in MARKDOWN and base not in ("escape", "select"):
            given = [*call.args, *(word.value for word in call.keywords if word.arg in ("label", "help", "body"))]
            for value in given:
                found += [f"{name}: {ast.unparse(piece)}" for piece in _pieces(value) if _is_foreign(piece)]
    return found


def _pieces(node):
    """Expressions inside the f-strings of an argument, but for what is escaped."""
    if isinstance(node, ast.Call) and dotted(node.func) in ESCAPES:
        return
    if isinstance(node, ast.FormattedValue):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from _pieces(child)


def _is_foreign(node) -> bool:
    if isinstance(node, ast.Call) and dotted(node.func) in ESCAPES:
        return False
    if isinstance(node, ast.Attribute) and node.attr in FOREIGN:
        return True
    if isinstance(node, ast.Name) and node.id in FOREIGN:
        return True
    return any(_is_foreign(child) for child in ast.iter_child_nodes(node))


def test_no_foreign_text_is_read_as_markdown():
    interface = {place: text for place, text in TEXTS.items() if place.startswith(("lps/ui/", "pages/"))}
    found = {f"{place.removeprefix('lps/')}: {words}" for place, text in interface.items() for words in raw_text(text)}
    assert found == OURS


@pytest.mark.parametrize(
    "line",
    [
        'st.caption(f"{state.reason}")',
        'st.button(label=f"Open {select.title(run)}")',
        'column.markdown("**" + f"{run.title}" + "**")',
        'st.error(f"{error}")',
        'st.tabs([f"{x.label}"])',
    ],
)
def test_the_markdown_rule_bites(line):
    assert raw_text(line)


def test_the_markdown_rule_lets_pass_what_is_escaped():
    assert raw_text('st.caption(f"{escape.markdown(state.reason)} {count}")') == []
