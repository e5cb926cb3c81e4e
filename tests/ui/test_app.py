"""What the server is allowed to do, that its theme has the palette's colours, and what every page begins with."""

import json
import tomllib
from pathlib import Path

import pytest
from streamlit import config

from lps.charts import palette
from lps.ui.shared.plot import library_path
from tests.visiting import PAGES, visit

ROOT = Path(__file__).parents[2]
CONFIG = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())


def test_the_server_listens_to_this_machine_alone_and_tells_nobody():
    """As .streamlit/config.toml says it, else as Streamlit does without being told."""
    assert CONFIG["server"]["port"] == 8501 and CONFIG["server"]["allowedHosts"] == ["localhost", "127.0.0.1"]
    options = {"server.address": "127.0.0.1", "client.showErrorDetails": "none"}
    options |= dict.fromkeys(("server.enableXsrfProtection", "server.enableCORS"), True)
    names = "server.enableStaticServing server.enableAgentApi server.showEmailPrompt browser.gatherUsageStats".split()
    for option, value in (options | dict.fromkeys(names, False)).items():
        group, _, name = option.partition(".")
        assert CONFIG[group].get(name, config._config_options_template[option].default_val) == value, option


@pytest.mark.parametrize("size, asked", [(1, "as ours"), (50_000_000, "as ours"), (50_000_000, "as Streamlit's own")])
def test_no_message_refers_to_one_that_the_browser_may_have_dropped(size, asked, monkeypatch):
    """The browser forgets messages by age while a refresh that counts on them is under way: an error over the page."""
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
    from streamlit.runtime.forward_msg_cache import populate_hash_if_needed

    ours = CONFIG["global"]["minCachedMessageSize"]
    usual = config.get_config_options(force_reparse=False)["global.minCachedMessageSize"].default_val
    least = ours if asked == "as ours" else usual
    monkeypatch.setattr(config, "get_option", {"global.minCachedMessageSize": least}.__getitem__)
    message = ForwardMsg()
    message.delta.new_element.text.body = "x" * size
    populate_hash_if_needed(message)
    assert message.hash
    assert message.metadata.cacheable == (asked != "as ours")


def test_nothing_of_the_theme_comes_from_elsewhere():
    assert "://" not in str(CONFIG["theme"])


def test_every_option_exists():
    known = config.get_config_options(force_reparse=False)
    for section, options in CONFIG.items():
        for name, value in options.items():
            for key in (
                [f"{section}.{name}"] if not isinstance(value, dict) else [f"{section}.{name}.{n}" for n in value]
            ):
                assert key in known or key.endswith(".sidebar"), key


@pytest.mark.parametrize("name, colors", [("light", palette.LIGHT), ("dark", palette.DARK)])
def test_the_theme_has_the_colours_of_the_charts(name, colors):
    theme = CONFIG["theme"][name]
    assert (theme["blueColor"], theme["orangeColor"], theme["textColor"]) == (colors.seen, colors.novel, colors.ink)
    assert tuple(theme["chartCategoricalColors"][:2]) == (colors.seen, colors.novel)
    assert len(theme["chartCategoricalColors"]) == 10


def test_grey_words_have_the_colour_of_captions():
    """Streamlit's own grey is brownish."""
    light, dark = (CONFIG["theme"][name]["grayTextColor"] for name in ("light", "dark"))
    assert f"color: light-dark({light}, {dark})" in (ROOT / "lps" / "charts" / "page.css").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_without_runs(page, tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    app = visit(page)
    assert app.title[0].value
    if page in ("home", "runs", "story", "explain"):
        has_charts = page in ("story", "explain")  # pages without charts let the browser load the library
        found = [json.loads(e.proto.bytes.partition(b"\n")[0]) for e in app.get("bidi_component") if e.proto.bytes]
        loaded = [head["library"] for head in found if head.get("name") == "plotly_ready"]
        assert loaded == [library_path()] * (not has_charts)
