"""URLs of this server that are not pages, and the answers to them."""

from collections.abc import Callable
from functools import wraps

import streamlit as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from lps.errors import UserError


def path_of(name: str) -> str:
    """Return the path of a resource beside the pages, below the server's base URL."""
    base = st.get_option("server.baseUrlPath").strip("/")
    return f"{'/' + base if base else ''}/{name}"


def answers_errors(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Return a function that answers a `UserError` of `answer` with its message and status 404."""

    @wraps(answer)
    def answer_or_explain(request: Request) -> Response:
        try:
            return answer(request)
        except UserError as error:
            return PlainTextResponse(f"{error}.\n", 404)

    return answer_or_explain
