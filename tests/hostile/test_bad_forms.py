"""What a person types wrongly into the pages Launch, Sweep and Search, and links to them that somebody made up.

At least 100 bad texts for every kind of field go through what reads the form, and a few through the widgets
themselves: a sentence that stands beside the field or names it, nothing to click, no folder, nothing started.
Settings by themselves are in `test_bad_input`; here is what only the forms ask for.
"""

import pytest
from streamlit.testing.v1.element_tree import Block, Element

from lps.cluster.executors import slurm
from lps.errors import UserError
from lps.machine import detached_jobs
from lps.scheduler import launcher, queue
from lps.settings.config import parameters
from lps.settings.parameters import Parameter, text_of
from lps.studies import presets, search, sweep_layout, sweeps
from lps.studies.sweep_layout import SweepSpec
from lps.ui.forms import form
from lps.ui.forms.form import Draft
from lps.ui.sweeps import form as sweep_forms
from tests.bad_values import ENOUGH, HUGE, STOCK, UNPRINTABLE, typed
from tests.hostile.test_bad_input import refusal
from tests.shares import share
from tests.visiting import visit, whole_form

SEED = Parameter("seed", "int", 0, "", 0, 2**31 - 1)
SPACE = ("margin_scale=1..10",)
ODD_NUMBERS = [sign * 10**power for power in range(4, 60) for sign in (1, -1)]
ODD_NUMBERS += [0.5, -0.5, 1e300, float("inf"), float("-inf"), float("nan"), True, False, "1", "", [], {}, (1,)]


@pytest.fixture(autouse=True)
def root(monkeypatch, tmp_path):
    """A folder of runs that is never made: whatever starts something fails the test."""

    def never(*arguments, **options):
        raise AssertionError(f"{arguments} is started")

    for name in ("launch", "launch_all", "resume", "_detach", "_spawn"):
        monkeypatch.setattr(launcher, name, never)
    monkeypatch.setattr(launcher, "dispatch", lambda root, trainer=None: [])
    for module, name in (
        (search, "start_driver"), (search, "create_search"), (sweeps, "start_sweep"), (detached_jobs, "start_job"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, never)
    monkeypatch.setattr(slurm, "is_here", lambda: False)
    monkeypatch.setattr("lps.store.run_folders.RECORDED", tmp_path / "no recordings")
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("LPS_CPU_SLOTS", "2")
    yield tmp_path / "runs"
    assert not (tmp_path / "runs").exists()


def is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def no_seeds() -> list[str]:
    """Texts that are no seeds, no lists of them and no ranges."""
    found = [text for text in typed(SEED) if not is_digits("".join(text.replace(",", " ").split()))]
    return [*found, "0,0", "0 0", "5-3", "0-40", "0..3", "0-", "-1", "0--1", "0-1-2", ",".join(map(str, range(40)))]


def ranges(name: str, texts: list[str]) -> list[str]:
    """`texts` less those that mean something else where a range is written: its marks."""
    return [text for text in texts if ".." not in text and ":" not in text]


def test_seeds_that_are_none():
    texts = no_seeds()
    assert len(set(texts)) >= ENOUGH
    for text in texts:
        assert refusal(form.parse_seeds, text).name == "seed"
        assert list(form.read_draft(Draft(seeds=text)).errors) == ["seed"], text


def test_seeds_of_a_search_that_are_none():
    texts = [text for text in no_seeds() if text not in ("0 0", "0,0")]  # a search takes them once
    for text in texts:
        assert refusal(search.read_request, "digits", "lps", SPACE, (), text).name in ("seed", "seeds")


def test_paths_of_the_launch_form_that_lead_nowhere():
    paths = [f"/nowhere/{text}" for text in STOCK if text.isprintable() and len(text) < 4000]
    assert len(paths) >= ENOUGH
    for name in ("arrays", "folder"):
        for path in paths:
            draft = Draft(name, texts={"dataset.path": path})
            assert list(form.check_reading(form.read_draft(draft)).errors) == ["dataset.path"], path


@pytest.mark.parametrize("name", ["margin_scale", "epochs", "network.freeze_until", "threads"])
def test_values_to_vary_and_settings_of_all_runs_of_a_sweep(name):
    """As the fields take them (one value by itself) and as the layout that they make does."""
    parameter = parameters("lps")[name]
    texts = [text for text in typed(parameter) if not text.strip(", |").isdigit()]
    assert len(set(texts)) >= ENOUGH

    def read(text: str) -> None:
        for value in sweep_layout.split_values(name, text):
            parameter.parse(value)

    for text in texts:
        if "," not in text and "|" not in text:
            assert refusal(read, text).name == name
        for layout in (SweepSpec(("digits",), ("lps",), (0,), {name: text}), _varied(name, text)):
            assert list(sweep_forms._check_request(layout, "", 0).errors) == [name], text


def _varied(name: str, text: str) -> SweepSpec:
    return SweepSpec(("digits",), ("lps",), (0,), {}, {name: (text,)})


def test_names_of_sweeps_and_searches():
    """A sweep's name is a tag, in which less is wrong than in the name of a folder."""
    marked = [f"a{mark}b" for mark in UNPRINTABLE] + ["a" * 35, "a" * 4097, *(f"a{mark}" for mark in "/:\\")]
    names = [text for text in STOCK if text.strip() and not search.NAME.fullmatch(text.strip())]
    assert len(set(names)) >= ENOUGH and len(set(marked)) >= ENOUGH
    for text in [*names, *marked]:
        assert refusal(search.read_request, "digits", "lps", SPACE, (), "0", "balanced", text).name == "name"
    layout = SweepSpec(("digits",), ("lps",), (0,))
    for text in [*names, *marked]:
        draft = sweep_forms._check_request(layout, text.strip(), 0)
        if draft.request is None:
            assert list(draft.errors) == ["name"], text
        else:  # what is taken is shown as it is, in one line
            assert sweeps.plan_unchecked_sweep(
                layout, sweep_forms.select.runs_root(), text.strip()
            ).tag.isprintable(), text


def test_the_numbers_of_a_search_and_of_a_sweep():
    request = search.read_request("digits", "lps", SPACE)
    assert len(ODD_NUMBERS) >= ENOUGH
    for key, name in (("trials", "trials"), ("parallel", "parallel"), ("sampler_seed", "sampler-seed")):
        for number in ODD_NUMBERS:
            if not (key == "sampler_seed" and type(number) is int and 0 <= number < 2**31):
                asked = search.Request(**{**vars(request), key: number})
                assert refusal(search.check_whole_request, asked).name == name, number
    for number in ODD_NUMBERS:
        assert "retries" in refusal(queue.check_retries, number).name, number
        if type(number) is int:
            layout = _varied("margin_scale", "1")
            layout = SweepSpec(**{**vars(layout), "mode": "random", "samples": number})
            assert list(sweep_forms._check_request(layout, "", 0).errors) == ["samples"], number


@pytest.mark.parametrize("name", ["margin_scale", "lr", "batch_size"])
def test_the_ends_and_the_choices_of_a_search(name):
    parameter = parameters("lps")[name]
    texts = ranges(name, typed(parameter))
    assert len(set(texts)) >= ENOUGH
    for text in texts:
        spaces = [f"{name}={text}..{parameter.default}", f"{name}={parameter.default}..{text}"]
        for space in spaces + [f"{name}={text}"] * ("," not in text):  # with one it is two choices
            assert refusal(search.read_space, [space], "lps").name == name, space
    for text in typed(parameter):
        settings = [f"{name}={text}"]
        assert refusal(search.read_request, "digits", "lps", ("momentum=0.1..0.9",), settings).name == name


@pytest.mark.parametrize("name", slurm.OPTIONS)
def test_fields_of_a_cluster(name):
    """Only control characters, blanks and marks of a shell are wrong for every one of them."""
    texts = [f"1{mark}2" for mark in [*UNPRINTABLE, *" ;&|$`<>'\"\\*?~!"]] + ["a b", "-x", "--", "$(x)", *HUGE]
    texts = [text for text in texts if text == text.strip()]
    assert len(set(texts)) >= ENOUGH
    for text in texts:
        refusal(slurm.read_options, [f"{name}={text}"])


def elements(block: Block) -> list[Element]:
    found = []
    for child in block.children.values():
        found += elements(child) if isinstance(child, Block) else [child]
    return found


def beside(at, key: str) -> str:
    """The misfit that stands behind a field, before any other field or explanation; "" where there is none.

    Both ends of a range share the sentence behind the second one.
    """
    inside = elements(at.main)
    place = next(i for i, element in enumerate(inside) if element.type == "text_input" and element.key == key)
    for element in inside[place + 1 :]:
        if element.type in ("markdown", "caption"):
            return element.value if element.value.startswith(":small[:red[") else ""
        if element.type == "text_input" and not (key.endswith("_low") and element.key.endswith("_high")):
            return ""
    return ""


def few(texts: list[str], count: int = 3) -> list[str]:
    """Some of them from all over the list, of those that a browser can send and that stand in one line."""
    sent = [
        text for text in texts if len(text) < 500 and text.strip() and "\ud800" not in text and "\udfff" not in text
    ]
    return sent[:: max(1, len(sent) // count)][:count]


def said(at) -> str:
    return "\n".join(element.value for element in [*at.error, *at.markdown]).replace("\\", "").replace("\u2060", "")


def startable(at, key: str) -> bool:
    return any(button.key == key and not button.disabled for button in at.button)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lps", "simgcd"])
def test_every_text_field_of_launch_says_what_is_wrong_with_it(method, root):
    at = whole_form(method=method)
    known = parameters(method)
    keys = [field.key for field in at.text_input if field.key.startswith("set:")]
    data = [key for key in keys if key.startswith("set:dataset.")]  # without data there is no field for their split
    assert len(keys) > 20 and data
    for names in (data, [key for key in keys if key not in data]):
        texts = {key: few(typed(known[key.removeprefix("set:")])) for key in names}
        for turn in share(range(3), 0, 3):
            for key in names:
                at.text_input(key=key).set_value(texts[key][turn])
            at.run()
            assert not at.exception and not startable(at, "launch_start") and not root.exists()
            for key in names:
                assert beside(at, key), (key, texts[key][turn])
        for key in names:
            at.text_input(key=key).set_value(
                text_of(form.default_settings("digits", method, {})[key.removeprefix("set:")])
            )
        at.run()


@pytest.mark.slow
def test_seeds_and_paths_of_launch_are_refused_beside_the_button_and_names_are_not(root):
    """A name is text for people: everything goes, nothing of it is carried out, and it is one line of the command."""
    at = whole_form()
    for text in few([text for text in STOCK if text.isprintable()], 4) + ["$(touch x)", "a\nb", "'; rm -rf ."]:
        at.text_input(key="form:name").set_value(text).run()
        assert not at.exception and startable(at, "launch_start"), text
    for text in share(few(no_seeds(), 6), 0, 3):
        at.text_input(key="form:seeds").set_value(text).run()
        assert beside(at, "form:seeds") and "Seed: " in said(at) and not startable(at, "launch_start")
        assert not at.exception
    at = whole_form(dataset="arrays")
    for text in share(["/nowhere", "a\tb", "~", "http://x/y", "x" * 300, "../..", "\u202e", "/etc/passwd"], 1, 4):
        at.text_input(key="set:dataset.path").set_value(text).run()
        assert ":red[The .npz file: " in said(at) and not startable(at, "launch_start") and not at.exception, text


@pytest.mark.slow
def test_every_text_field_of_sweeps(root):
    at = visit("sweeps", kind="own")
    at.multiselect(key="sweep_vary").set_value(["margin_scale", "epochs"])
    at.multiselect(key="sweep_fixed").set_value(["lr", "batch_size", "dataset.path"]).run()
    known = parameters("lps")
    keys = ["vary:margin_scale", "vary:epochs", "fix:lr", "fix:batch_size", "fix:dataset.path"]
    for turn in share(range(4), 0, 4):
        for key in keys:
            at.text_input(key=key).set_value(few(typed(known[key.partition(":")[2]]), 4)[turn])
        at.run()
        assert not at.exception and not startable(at, "sweep_start")
        for key in keys:
            assert beside(at, key), key
    at = visit("sweeps", kind="own")
    for text in few(no_seeds(), 4):
        at.text_input(key="sweep_seeds").set_value(text).run()
        assert at.error and "Seeds: " in said(at) and not startable(at, "sweep_start"), text
        assert not at.exception
    at.text_input(key="sweep_seeds").set_value("0").run()
    for text in ["a\x00b", "a\u202eb", "\u200b"]:
        at.text_input(key="sweep_name").set_value(text).run()
        assert at.error and "name: " in said(at) and not startable(at, "sweep_start"), text
        assert not at.exception


@pytest.mark.slow
def test_every_text_field_of_search(root):
    at = visit("search")
    at.multiselect(key="search_fixed_lps_digits").set_value(["epochs", "dataset.path"]).run()
    known = parameters("lps")
    keys = {"search_margin_scale_low": "margin_scale", "search_lr_high": "lr", "search_fix_epochs": "epochs",
            "search_fix_dataset.path": "dataset.path"}  # fmt: skip
    for turn in share(range(4), 1, 4):
        for key, name in keys.items():
            at.text_input(key=key).set_value(few(typed(known[name]), 4)[turn])
        at.run()
        assert not at.exception and not startable(at, "search_start")
        for key in keys:
            assert beside(at, key), key
    at = visit("search")
    for key, texts, name in (
        ("seeds", few(no_seeds(), 4), "seed"),
        ("name", ["a/b", "..", "a b", "é", "\u200b"], "name"),
    ):
        usual = at.text_input(key=f"search_{key}").value
        for text in texts:
            at.text_input(key=f"search_{key}").set_value(text).run()
            assert name in said(at) and at.error and not startable(at, "search_start") and not at.exception, text
        at.text_input(key=f"search_{key}").set_value(usual).run()
    assert startable(at, "search_start")


@pytest.mark.parametrize(
    "page, key, most",
    [
        ("search", "search_trials", search.MAX_TRIALS),
        ("search", "search_parallel", search.MAX_PARALLEL),
        ("search", "search_draw", 2**31 - 1),
        ("sweeps", "sweep_retries", queue.MAX_RETRIES),
    ],
)
def test_a_field_of_numbers_keeps_no_number_outside_its_range(page, key, most, root):
    at = visit(page)
    for number in (-1, most + 1, 10**40, 1.5, None):
        at.number_input(key=key).set_value(number).run()
        value = at.number_input(key=key).value
        assert value is None or type(value) is int and 0 <= value <= most
        assert not at.exception and at.code, number


ODD = [
    "", " ", "x", "-1", "nan", "1e999", "9" * 300, "../../etc/passwd", "/etc", "<img src=x onerror=alert(1)>", "=1+1",
    "$(touch x)", "'; DROP TABLE runs", "%00", "a\nb", "a\tb", "\u202e", "\ufeff", "🙂", "a" * 5000, "true", "None",
    "[]", "{}", "0,0", "0-99", "epochs", "epochs=many", "=", "==", "lr=", "=1", "epochs=0", "nosuch=1", "digits", "lps",
]  # fmt: skip
KEYS = {
    "launch": ["dataset", "method", "seeds", "name", "set", "clone", "run"],
    "sweeps": ["kind", "preset", "scale", "sweep_seeds", "sweep_name", "sweep_retries", "sweep_datasets", "sweep_only",
               "sweep_methods", "sweep_vary", "vary:epochs", "sweep_fixed", "fix:epochs", "mode", "sweep_samples"],
    "search": ["method", "dataset", "objective", "search_trials", "search_seeds", "search_space_lps", "search_name",
               "search_margin_scale_low", "search_lr_high", "search_lr_log", "search_prune", "search_parallel",
               "search_draw", "search_fixed_lps_digits", "search_fix_epochs"],
}  # fmt: skip
SHOWN = {"sweeps": {"kind": "own", "sweep_vary": ["epochs"], "mode": "random"}, "search": {}, "launch": {}}


@pytest.mark.parametrize("page", list(KEYS))
def test_links_with_odd_values(page, root):
    """Every odd value comes to every key, in other company each time: first all alike odd, then beside a good form."""
    for turn in range(0, len(ODD), 6):
        query = {key: ODD[(turn + 5 * place) % len(ODD)] for place, key in enumerate(KEYS[page])}
        if turn % 12:
            query |= SHOWN[page]
        at = visit(page, **query)
        assert at.title and at.title[0].value in ("Launch", "Sweep", "Search")
    at = visit(page, **{key: ODD[:24] for key in KEYS[page]})
    assert at.title


@pytest.mark.slow
@pytest.mark.parametrize(
    "page, key, words", [("sweeps", "sweep", "No sweep is called"), ("search", "search", "No search")]
)
def test_links_to_what_is_not_there(page, key, words, root):
    at = visit(page)
    for text in share(ODD[1:], 0, 6):
        at.query_params[key] = text
        at.run()
        assert not at.exception and words in at.warning[0].value, text


@pytest.mark.parametrize("key", ["set", "dataset", "method"])
def test_every_odd_part_of_a_link_to_launch_is_told(key):
    fine = {"set": ["epochs", "epochs=many", "epochs=0", "lr="], "dataset": ["digits"], "method": ["lps"]}[key]
    for text in filter(None, ODD):  # those that are left out are for the fields to refuse
        if text not in fine:
            assert len(form.draft_from_link({key: [text]})[1]) == 1, text


def test_presets_take_no_odd_setting():
    for text in few(typed(parameters("lps")["epochs"]), 30):
        asked = presets.PresetRequest("ablation", fixed={"epochs": text})
        with pytest.raises(UserError):
            sweeps.plan_unchecked_sweep(asked, sweep_forms.select.runs_root())
