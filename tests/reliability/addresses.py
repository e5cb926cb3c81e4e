"""Long, nested and strange texts in the address of every page, for every parameter that a page reads."""

import random
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from tests.sample_runs import make_run
from tests.visiting import visit

ROOT = Path(__file__).resolve().parents[2]
LONG = 100_000  # characters
MAX_S = 10.0  # for one page
# How pages read a parameter: by name from st.query_params, through lps.ui.shared.select, or bound to a box.
READS = re.compile(
    r"""(?:query_params(?:\.(?:get|get_all|pop)\(|\[)|select\.(?:choose\([^"']*|choice\(|number\(|set_number\())\s*"""
    r"""["'](\w+)["']|key=["'](\w+)["'],\s*bind="""
)


def parameters() -> list[str]:
    """Every parameter of an address that the sources of the pages name."""
    texts = (path.read_text(encoding="utf-8") for path in sorted((ROOT / "lps" / "ui").rglob("*.py")))
    return sorted({one or other for text in texts for one, other in READS.findall(text)})


def texts(draws: random.Random) -> list[str]:
    """Long, nested, Unicode, numbers that are none, and charts whose parts are all of these."""
    wide = "".join(chr(draws.choice((0x0, 0x7F, 0x200F, 0x202E, 0x300, 0xE0001, 0x1F600, 0xFDFA))) for _ in range(500))
    nested = ["[" * (LONG // 2) + "]" * (LONG // 2), "(" * LONG, '{"a":' * (LONG // 5), "not " * (LONG // 4)]
    numbers = ["9" * LONG, "-1", "1e999", "nan", "inf", "0x10", "٣", "1_000", "²", "-0", "1" + "0" * 400]
    parts = ["a" * LONG, wide, "", "=", "NaN", "1e308", "[" * 1000, "epoch", "step", "accuracy/novel", "%", "\\"]
    charts = [f"y={y};x={x};smooth={s};log={y};by={x}" for y, x, s in zip(parts, parts[1:], parts[2:])]
    charts += ["y=accuracy/novel;" * (LONG // 17), ";" * LONG, "=" * LONG, "y=" + "e\u0301" * (LONG // 2), "log=yxyx"]
    return ["a" * LONG, "\U0001f600" * (LONG // 4), wide, *nested, *numbers, *charts, quote(wide), "~" + "(a+)+" * 50]


def attack(root: Path, seed: int, pages: Sequence[str], every: int) -> Iterator[tuple[str, float, str]]:
    """(page and parameter, seconds, what is wrong) of each visit; LPS_RUNS names `root`.

    every: one in so many of the pairs of a parameter and a text is tried on each page.
    """
    runs, found = [make_run(root, state, epochs=4) for state in ("finished", "running")], texts(random.Random(seed))
    pairs, short = [(name, text) for name in parameters() for text in found], [t for t in found if len(t) < 1000]
    for page in pages:
        queries = [(name, {name: text}) for name, text in pairs[seed % every :: every]]
        queries += [("all at once", dict.fromkeys(parameters(), short)), ("chart, often", {"chart": short * 10})]
        seed += 7  # other pairs on the next page
        for name, query in queries:
            query = {"run": [run.id for run in runs]} | query
            yield f"{page}, {name}: {str(query[name])[:40] if name in query else ''}", *_visit(page, query)


def _visit(page: str, query: dict) -> tuple[float, str]:
    began, wrong = time.monotonic(), ""
    try:
        at = visit(page, **query)
        shown = [str(one.value) for one in (*at.markdown, *at.error, *at.warning, *at.code)]
        wrong = "a traceback" if any("Traceback" in text for text in shown) else ""
    except Exception as error:
        wrong = f"{type(error).__name__}: {str(error)[:300]}"
    seconds = time.monotonic() - began
    return seconds, wrong or (f"{seconds:.1f} s" if seconds > MAX_S else "")
