"""Hooks for MkDocs: make the reference pages from the program, and turn equations into MathML.

The pages of commands, settings and methods are written at build time, so that they cannot get out of date. MathML is
drawn by the browser itself: the site needs no script and no font from elsewhere.
"""

import argparse
import html
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lps.cli._parser import parser  # noqa: E402
from lps.inference.prediction_columns import describe_columns  # noqa: E402
from lps.settings import catalog, config  # noqa: E402
from lps.settings.parameters import Parameter, text_of  # noqa: E402

_PROGRAM = "python -m lps"
_BENCHMARKS = "results/benchmarks.md"  # benchmarks/README.md as a page of the site
_SHIM = "https://unpkg.com/iframe-worker/shim"  # what the theme would load from elsewhere
_EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.S)


def on_files(files, config):
    """Add the pages that are made at build time."""
    pages = {
        "reference/commands.md": commands_page(),
        "reference/settings.md": settings_page(),
        "concepts/methods.md": methods_page(),
        _BENCHMARKS: (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8"),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Lead links to files outside of docs/ to their page on the site, or to plain text."""
    up = "../" * page.file.src_uri.count("/")
    markdown = re.sub(r"\]\((?:\.\./)+benchmarks/README\.md", f"]({up}{_BENCHMARKS}", markdown)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?:README|CHANGELOG|CONTRIBUTING)\.md[^)]*\)", r"\1", markdown)


def on_page_content(content, page, config, files):
    """Turn every equation into MathML."""
    return _EQUATION.sub(lambda found: mathml(html.unescape(found[2]), found[1] == "div"), content)


def on_post_page(output, page, config):
    """Load the script that searches in pages from the disk from the site itself."""
    return output.replace(_SHIM, "../" * page.url.count("/") + "vendor/iframe-worker.js")


def on_post_template(output_content, template_name, config):
    return output_content.replace(_SHIM, "vendor/iframe-worker.js")


def mathml(latex: str, is_block: bool) -> str:
    markup = convert(latex.strip(), display="block" if is_block else "inline")
    return f'<div class="equation">{markup}</div>' if is_block else markup


# ------------------------------------------------------------------------------------------------------------ commands


def commands_page() -> str:
    """Every command with its options, read from the parser."""
    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    summaries = {choice.dest: choice.help for choice in commands._choices_actions}
    lines = [
        "# Commands",
        "",
        f"Every command as `{_PROGRAM} COMMAND --help` prints it. This page is made from the program.",
        "",
        *_table(("command", "what it does"), ((f"[`{n}`](#{n})", _plain(summary)) for n, summary in summaries.items())),
    ]
    for name, command in commands.choices.items():
        rows = [
            (_invocation(action), _plain(_help(action)), _default(action))
            for action in command._actions
            if not isinstance(action, argparse._HelpAction) and action.help != argparse.SUPPRESS
        ]
        lines += ["", f"## {name}", "", _sentence(_plain(summaries[name])), ""]
        lines += _table(("argument", "meaning", "default"), rows) if rows else []
        if name == "predict":
            columns = ((f"`{column}`", _plain(text)) for column, text in describe_columns().items())
            lines += ["", *_table(("column of the table", "meaning"), columns)]
    return "\n".join(lines) + "\n"


def _invocation(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    value = value if isinstance(value, str) else " ".join(value)
    if action.choices is not None and not action.metavar:
        value = ",".join(map(str, action.choices))
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    return ", ".join(f"`{name} {value}`" if action.nargs != 0 else f"`{name}`" for name in action.option_strings)


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")


def _default(action: argparse.Action) -> str:
    if action.dest == "runs":  # depends on the machine
        return "[see](../how-to/install.md#where-files-are-kept)"
    return "" if action.default in (None, False, [], "", argparse.SUPPRESS) else f"`{action.default}`"


# ------------------------------------------------------------------------------------------------------------ settings


def settings_page() -> str:
    """Every setting of the protocol and of each method, read from the registry."""
    lines = [
        "# Settings",
        "",
        "Set any of these with `--set NAME=VALUE`, in the form of the dashboard, or as an argument in Python (with an",
        "underscore where the name has a dot). This page is made from the program.",
        "",
        "## All runs",
        "",
        "A data set can bring other defaults (`batch_size`, `epochs`, ...); the form shows them.",
        "",
        *_settings(config.protocol_parameters().values()),
    ]
    for name in catalog.method_names():
        info = catalog.method_info(name)
        own = list(info.parameters.values())
        lines += ["", f"## {info.title} {{ #{name} }}", "", f"`--method {name}`. {_sentence(_plain(info.summary))}", ""]
        lines += _settings(own) if own else ["It has no settings of its own."]
    return "\n".join(lines) + "\n"


def _settings(parameters: Iterable[Parameter]) -> list[str]:
    return _table(
        ("setting", "meaning", "value", "default", "a larger value", "paper"),
        (
            (
                f"`{p.name}`",
                _plain(p.help),
                _plain(p.expectation()),
                f"`{text_of(p.default)}`",
                _plain(p.told.larger),
                _plain(p.told.paper),
            )
            for p in parameters
        ),
    )


# ------------------------------------------------------------------------------------------------------------- methods


def methods_page() -> str:
    """Every method with its objective, source and deviations, read from its module."""
    lines = [
        "# Methods",
        "",
        "Each method is one file of `lps/methods/`. This page is made from these files: the objective that the code",
        "minimizes, the paper, the views of a batch, and every known deviation from the authors' code.",
        "",
        *_table(
            ("method", "idea"),
            ((f"[{i.title}](#{i.name})", _plain(i.summary)) for i in map(catalog.method_info, catalog.method_names())),
        ),
    ]
    for name in catalog.method_names():
        info = catalog.method_info(name)
        lines += ["", f"## {info.title} {{ #{name} }}", "", _sentence(_plain(info.summary)), ""]
        lines += [f"Settings: [`--method {name}`](../reference/settings.md#{name}).", ""]
        for title, text in info.sections.items():
            lines += [f"**{title}**", "", _with_equations(text), ""]
    return "\n".join(lines) + "\n"


def _with_equations(text: str) -> str:
    """A section of a docstring as Markdown: equations as blocks, one paragraph per line that begins a sentence."""
    parts = re.split(r"\$\$(.*?)\$\$", text, flags=re.S)
    return "\n\n".join(
        f"$$\n{' '.join(part.split())}\n$$" if at % 2 else _plain(" ".join(part.split()))
        for at, part in enumerate(parts)
        if part.strip()
    )


# -------------------------------------------------------------------------------------------------------------- common


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in [heads, ("---",) * len(heads), *rows]]


def _plain(text: str | None) -> str:
    """Text that Markdown shows as it stands, also in a table."""
    text = re.sub(r"([\\*_\[\]|])", r"\\\1", html.escape(text or "", quote=False))
    return re.sub(r"`([^`]*)`", lambda found: found[0].replace("\\", ""), " ".join(text.split()))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!")) else ".")
