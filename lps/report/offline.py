"""HTML files that open offline and run only their own scripts: the page, its scripts, its policy, data inside it."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

_HERE = Path(__file__).parent
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_POLICY = "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'"


def page(template: Path, scripts: Sequence[str], style: str, **values) -> str:
    """Render a file from a template that extends `offline.html.j2`; every value but `Markup` is escaped.

    scripts: the only ones that the policy allows; the template places them.
    """
    policy = _POLICY.format(" ".join(map(_hash, scripts)) or "'none'")
    scripts_as_markup = [Markup(script) for script in scripts]
    return (
        _environment(template.parent)
        .get_template(template.name)
        .render(policy=policy, scripts=scripts_as_markup, style=Markup(style), **values)
    )


@cache
def _environment(folder: Path) -> jinja2.Environment:
    """Return the environment of a folder; it is cached because compiling takes longer than rendering."""
    loader = jinja2.FileSystemLoader([folder, _HERE])
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


@cache
def as_script(source: bytes) -> str:
    """Return a script for use between tags, with the line ends that a browser hashes."""
    text = source.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    assert "</script" not in text.lower() and "<!--" not in text, text[:80]
    return text


@cache
def _hash(text: str) -> str:
    """Return the hash by which the policy allows a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def inside_script(data: str) -> Markup:
    """Escape JSON so that none of its texts can end a script tag."""
    for character, escaped in _UNSAFE.items():
        data = data.replace(character, escaped)
    return Markup(data)
