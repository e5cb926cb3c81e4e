"""The list of texts that `python -m tests.texts` writes has every kind of text, and only texts."""

import pytest

from tests.texts import texts, texts_of_python, texts_of_script

SOURCE = '''
"""A docstring that nobody is shown."""
LABELS = {"seen": "Seen classes"}
def page(count: "a type of words") -> None:
    """Another docstring of words."""
    st.button("Start", key="not this one", help="Starts the run.")
    st.caption(f"{count} pictures left, "
               "none of them labeled.")
    raise UserError("epochs", "is empty; expected a number")
    state["a key of words"] = re.compile("two words")
'''


def test_labels_help_sentences_and_errors_are_listed_with_their_line():
    found = [(text.line, text.text) for text in texts_of_python(SOURCE, "page.py")]
    assert found == [
        (3, "Seen classes"),
        (6, "Start"),
        (6, "Starts the run."),
        (7, "{count} pictures left, none of them labeled."),
        (9, "is empty; expected a number"),
    ]


def test_strings_of_scripts_are_listed_without_comments_and_code():
    script = (
        'const a = "No picture is left.";\n// "a comment of words"\nconst b = `${n} of ${m} shown`; q("M12 3l8 14H4z");'
    )
    assert [str(text) for text in texts_of_script(script, "a.js")] == [
        "a.js:1\tNo picture is left.",
        "a.js:3\t${n} of ${m} shown",
    ]


@pytest.mark.slow
def test_the_program_s_texts_are_in_the_list():
    found = texts()
    for file, part in [
        ("lps/ui/home/page.py", "Two short runs learn to sort digits"),  # a page
        ("lps/ui/shared/run_actions.py", "Saves a checkpoint first"),  # the help of a button
        ("lps/cli/training.py", "train in the foreground"),  # the command line
        ("lps/datasets/folder.py", "has no pictures; add some or remove it"),  # an error
        ("lps/ui/review/deck.js", "Name of a class, new or known"),  # a part in the browser
        ("lps/race/frame.html.j2", "slows down classes that are guessed often"),  # a template
        ("lps/methods/lps.py", "until the estimated class distribution meets the prior"),  # what a method is
    ]:
        assert any(text.file == file and part in text.text for text in found), part
