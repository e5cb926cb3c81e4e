"""Where runs are carried out: on this machine or as jobs of a reachable execution backend, and what a job asks for.

`read_target` returns the values of the fields, also before they are drawn. `show_target` draws them; it draws nothing
if this machine is the only choice. The choice lasts for the visit and is the same on every page that asks.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from lps.cluster import executors
from lps.cluster.job_options import Option, Options
from lps.errors import UserError
from lps.settings import cli_args
from lps.ui.forms import fields, form
from lps.ui.shared import escape, url_fields
from lps.wording import capitalized

_STORED_TARGET = "place"  # in the session: {"on": place, option: text}
_CACHE_S = 60  # how long the values that a place knows are kept


@dataclass(frozen=True)
class ExecutionTarget:
    """Where runs are carried out.

    on: the job options; None for this machine. errors: a sentence for every invalid option of `name`.
    """

    on: Options | None
    errors: dict[str, str]
    name: str = ""

    @property
    def is_here(self) -> bool:
        return self.on is None and not self.errors

    @property
    def blocked_by(self) -> str:
        """Return why no job can be submitted; "" if nothing prevents it."""
        return f"{executors.executor_title(self.name)}: {form.blocked_by(self.errors)}" if self.errors else ""

    @property
    def words(self) -> list[str]:
        """Return the job options as command line arguments."""
        if self.on is None:
            return []
        return cli_args.option_words(**{"on": self.on.executor, self.on.executor: self.on.texts()})

    def without(self, name: str) -> str:
        """Return why a job has no retries or priorities of this machine's queue."""
        return f"This setting has no effect {executors.EXECUTORS[self.name].INSTEAD[name]}"


def read_target() -> ExecutionTarget:
    """Return the values of the fields."""
    stored_options = st.session_state.get(_STORED_TARGET, {})
    executor = stored_options.get("on")
    if executor not in executors.available_executors():
        return ExecutionTarget(None, {})
    texts, errors = [], {}
    for name, option in executors.EXECUTORS[executor].OPTIONS.items():
        typed = stored_options.get(name, "")
        lines = [line for line in (typed.splitlines() if option.is_list else [typed]) if line.strip()]
        sentences = [f"{name}={line.strip()}" for line in lines]
        try:
            executors.EXECUTORS[executor].read_options(sentences)
        except UserError as error:
            errors[name] = form.error_sentence(error)
        texts += sentences
    return ExecutionTarget(None if errors else executors.EXECUTORS[executor].read_options(texts), errors, executor)


def check_target(target: ExecutionTarget) -> None:
    """Ask the backend whether it would accept such jobs; raises `UserError`."""
    if target.errors:
        name, sentence = next(iter(target.errors.items()))
        raise UserError(_option_label(executors.EXECUTORS[target.name].OPTIONS[name]), sentence)
    if target.on is not None:
        executors.EXECUTORS[target.name].check(target.on)


def _option_label(option: Option) -> str:
    return option.label or form.setting_label(option.parameter.name)


def command_with_target(commands: str, target: ExecutionTarget) -> str:
    """Add the target to every line of a command that starts runs."""
    return "\n".join(f"{command} {shlex.join(target.words)}".rstrip() for command in commands.splitlines())


def show_target(is_several: bool = False) -> None:
    """Show the choice of the target and a field for each of its options. is_several: for several runs."""
    titles = {"here": "This machine"} | {
        name: executors.executor_title(name) for name in executors.available_executors()
    }
    if len(titles) == 1:
        return
    target, stored_options = read_target(), st.session_state.get(_STORED_TARGET, {})
    place = target.name or "here"
    _draw_stored_field(st.segmented_control, "on", place, "Where", list(titles), format_func=titles.get)
    if not target.name:
        return
    options = executors.EXECUTORS[target.name].OPTIONS
    offered = {name: option for name, option in options.items() if name != "at_once" or is_several}
    with fields.field_grid():
        for name, option in offered.items():
            if not option.is_list:
                with st.container(gap="xxsmall"):
                    _ask_option(target.name, name, option)
                    help_text = f"{capitalized(option.parameter.help)}, such as {option.example}"
                    fields.show_error_or_help(target.errors.get(name), escape.markdown(help_text))
    for name, option in offered.items():
        if option.is_list:
            help_text = {"placeholder": option.example, "height": 80}
            _draw_stored_field(
                st.text_area, name, stored_options.get(name, ""), f"{_option_label(option)}, one per line", **help_text
            )
            fields.show_error_or_help(target.errors.get(name))
    job_text = "one job array" if is_several else "one job"
    st.caption(
        f"{'The runs are' if is_several else 'The run is'} submitted as {job_text}. A run that is preempted or reaches "
        "its time limit continues from its checkpoint."
    )


def _ask_option(executor: str, name: str, option: Option) -> None:
    text, choices = st.session_state.get(_STORED_TARGET, {}).get(name, ""), _known_values(executor, name)
    if choices and text in ("", *choices):
        usual = f"Default ({choices[0]})"
        _draw_stored_field(
            st.selectbox, name, text, _option_label(option), ["", *choices], format_func=lambda choice: choice or usual
        )
    else:
        _draw_stored_field(st.text_input, name, text, _option_label(option), placeholder="Cluster default")


def _draw_stored_field(widget: Callable, name: str, text: str, *args, **options) -> None:
    """Show a widget whose text lasts for the visit."""

    def store(text_or_none: str | None) -> None:
        st.session_state.setdefault(_STORED_TARGET, {})[name] = text_or_none or ""

    url_fields.draw_field(widget, f"place:{name}", text, store, *args, **options)


@st.cache_data(ttl=_CACHE_S, show_spinner=False)
def _known_values(executor: str, name: str) -> list[str]:
    return executors.EXECUTORS[executor].known(name)
