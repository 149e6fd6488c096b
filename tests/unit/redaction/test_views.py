import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.redaction.views import joined_views, looks_the_same, squeezed, views

TOKEN = "tok_" + "Zx81Kq"
UNSEEN = (
    *(
        "\x1b[32m",
        "\x1b[0m",
        "\x1b[1;31m\x1b[K",
        "\x1b(B",
        "\x1b]8;;http://a/b\x1b\\",
        "\x1b]0;t\x07",
    ),
    *("\x9b31m", "\\x1b[31m", "\\u001b[0m", "\\033[1;32m", "\\e[0m", "\\\\u001b[0m", "^[[31m"),
    *("\u200b", "\u200d", "\u2060", "\u00ad", "\ufeff", "\\\n", "\\\r\n", "\\\\\\n"),
)
PIECES = st.one_of(
    st.text(max_size=6), st.sampled_from([*UNSEEN, "\n", " ", "é", "日本", "x", "\\"])
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def seen(text):
    return [view.data.decode() for view in views(text.encode())]


def test_a_plain_text_has_one_view():
    text = "def f(x):\n    return x  # “quoted” … and > than\n    \\d+ \\n ^[a]\n" * 3

    assert seen(text) == [text]


@given(TEXTS)
def test_what_looks_the_same_has_one_view(text):
    if looks_the_same(text.encode()):
        assert seen(text) == [text]


@pytest.mark.parametrize("unseen", UNSEEN)
def test_what_nobody_sees_is_left_out_and_the_way_back_is_known(unseen):
    text = f"é {unseen}{TOKEN[:5]}{unseen}{TOKEN[5:]}{unseen} b c"
    data = text.encode()

    _, view = views(data)
    start = view.data.index(TOKEN.encode())
    begin, end = view.span(start, start + len(TOKEN))

    assert view.data.decode().split() == ["é", TOKEN, "b", "c"]
    assert data[begin:end].decode() == f"{TOKEN[:5]}{unseen}{TOKEN[5:]}"


def test_lines_of_a_folded_scalar_are_joined_behind_their_key():
    text = (
        "a: b c\ntoken: >-\n  tok_Zx\n  81Kq\nother: |\n  ab\n  cd\nmore: >\n  two words\n  here\n"
    )

    (_, view) = views(text.encode())

    assert view.data.decode() == "\ntoken: tok_Zx81Kq"
    assert view.span(8, 18) == (text.index("tok_"), text.index("81Kq") + 4)


def test_an_indented_line_of_one_word_goes_on_where_the_last_one_ended():
    assert seen('a: "tok_\\\n     Zx81Kq"\n')[1] == 'a: "tok_Zx81Kq"\n'
    assert seen("curl -k\\\n     -u x\n")[1] == "curl -k     -u x\n"


def test_all_lines_are_joined_for_what_is_known():
    text = "a tok_Zx\n   81\r\nKq b"

    (view,) = joined_views(text.encode())

    assert view.data.decode() == "a tok_Zx81Kq b"
    assert view.span(2, 12) == (2, 18)
    assert [*joined_views(b"one line"), *joined_views(b"\n")] == []


def test_words_of_joined_lines_are_in_the_squeezed_text():
    data = b'to\\r\\nken ab\r\n\tcd "x\\n y" e\\\nf g\\rh'
    (view,) = joined_views(data)

    words = [word for word in view.data.split() if b"\\" not in word]

    assert words == [b"token", b"abcd", b'"xy"', b"ef"]
    assert all(word in squeezed(data) for word in words)


@given(TEXTS)
def test_every_view_leads_back_to_what_it_shows(text):
    data = text.encode()
    for view in [*views(data), *joined_views(data)]:
        shown = view.data
        shown.decode()
        for index in range(len(shown)):
            start, end = view.span(index, index + 1)
            assert data[start:end] == shown[index : index + 1]


@given(TEXTS, TEXTS, st.sampled_from(UNSEEN), st.integers(1, len(TOKEN) - 1))
def test_a_word_cut_by_something_unseen_is_whole_in_a_view(before, behind, unseen, at):
    text = f"{before} {TOKEN[:at]}{unseen}{TOKEN[at:]} {behind}"

    assert any(TOKEN in view for view in seen(text))


@pytest.mark.parametrize(
    "made",
    [
        *(
            "\x1b",
            "\x1b]",
            "\x1b[",
            "\x1bP",
            "\x1b ",
            "\\",
            "\\\n",
            "\\x1b]",
            "\\x1b[",
            "\\x1b[0",
            "^[[",
        ),
        *(">\n", " >\n", ">\n a\n", "> ", "\n ", "\u200b", "\\\\\\n", "\\e", "\\0"),
    ],
)
def test_a_text_that_is_made_to_be_slow_is_seen_in_one_go(made):
    # An expression that is not linear would take minutes here.
    data = (made * 100_000)[:100_000].encode()

    sizes = [len(view.data) for view in [*views(data), *joined_views(data)]]

    assert max(sizes) == len(data)
