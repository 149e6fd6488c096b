"""Docstrings of the three formats, as careful and careless authors write them."""

import inspect

import pytest

from toolbus.tools.docstrings import parse

GOOGLE = """
    Fetch a page.

    Follows redirects.

    Args:
        url (str): Where the page is.
            Relative ones are refused.
        headers (dict[str, str], optional): Sent as they are: "a: b".

            A second paragraph.
        **options: More.
        timeout: float

    Returns:
        Response: the page

    Raises:
        OSError: when the network fails
"""
NUMPY = """
    Fetch a page.

    Follows redirects.

    Parameters
    ----------
    url : str
        Where the page is.
        Relative ones are refused.
    headers : dict of {str: str}, optional
        Sent as they are: "a: b".

        A second paragraph.
    **options
        More.
    verify : bool

    Other Parameters
    ----------------
    timeout: float, default: 3.0
        float

    Returns
    -------
    status : int
        The status.

    Examples
    --------
    >>> fetch("https://example.com")
"""
SPHINX = r"""
    Fetch a page.

    Follows redirects.

    :param url: Where the page is.
        Relative ones are refused.
    :type url: str
    :param dict[str, str] headers: Sent as they are: "a: b".

        A second paragraph.
    :param \**options: More.
    :param verify:
    :keyword timeout: float
    :return: the page
    :rtype: Response
    :raises OSError: when the network fails
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_three_formats_say_the_same(text):
    description, parameters = parse(inspect.cleandoc(text))

    assert description == "Fetch a page.\n\nFollows redirects."
    assert parameters == {
        "url": "Where the page is. Relative ones are refused.",
        "headers": 'Sent as they are: "a: b". A second paragraph.',
        "options": "More.",
        "timeout": "float",
    }


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("", {}),
        ("Read.", {}),
        ("Read.\n\nArgs:\n", {}),
        ("Read.\n\nArgs:\n    path: where", {"path": "where"}),
        ("Read.\n\nArguments:\n    - path: where", {"path": "where"}),
        ("Read.\n\nArgs:\n    path (str | None): where", {"path": "where"}),
        ("Read.\n\nArgs:\n    path (Callable[[int], str], optional): a", {"path": "a"}),
        ("Read.\n\nArgs:\n\n    path: where\n    none\n    of: it", {"path": "where", "of": "it"}),
        ("Read.\n\nArgs:\n    path:\n        where", {"path": "where"}),
        ("Read.\n\nArgs:\n    path: where\nNote: this", {"path": "where"}),
        ("Read.\n\nArgs:\n    path: where\n\nKeyword Args:\n  n: it", {"path": "where", "n": "it"}),
        ("Read.\n\nArgs:\nNote: this", {}),
        ("Read.\n\nParameters\n----------\n", {}),
        ("Read.\n\nParameters\n----------\npath", {}),
        ("Read.\n\nParameters\n----------\n\npath\n   where\n", {"path": "where"}),
        (
            "Read.\n\nParameters\n---\nx, y : int\n  where\nSee Also\n---\nz\n  no",
            dict.fromkeys("xy", "where"),
        ),
        (":param path: where", {"path": "where"}),
        (":param path: where\n\nMore.", {"path": "where"}),
        (":param Callable[[int], str] path: where\n:type path: x", {"path": "where"}),
        (
            ":parameter path: where\n\n    and\n\n    how\n:param n: it",
            {"path": "where and how", "n": "it"},
        ),
        (":paramount path: where", {}),
    ],
)
def test_each_parameter_has_its_text(text, parameters):
    assert parse(text).parameters == parameters


@pytest.mark.parametrize(
    "section",
    [
        *("Args:", "Arguments:", "Returns:", "Raises:", "Yields:", "Example:", "Examples:"),
        *("Parameters\n---", "Returns\n-------", "Yields\n---", "Examples\n---", "Raises\n---"),
        *(":param x:", ":returns:", ":return:", ":rtype:", ":raises OSError:", ":type x:"),
    ],
)
def test_a_description_ends_before_any_section(section):
    assert parse(f"Read.\n\nSlowly.\n\n{section}\n    x: y").description == "Read.\n\nSlowly."


@pytest.mark.parametrize(
    "text",
    [
        "Read.\n\nUsage\n-----\nAs always.",
        "Read.\n\nNote: this, :param too.\n\n- Returns: text",
        "Read `:param`.\n\n:note: Parameters",
    ],
)
def test_other_headings_stay_in_the_description(text):
    assert parse(text) == (text, {})
