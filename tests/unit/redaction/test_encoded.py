import string
from base64 import b64decode, b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.redaction.encoded import encoded_texts

TEXT = (
    '{"user": "bob", "é": "日本", "more": "a text that is long enough for several lines"}\n' * 3
    + "!"
)


def wrapped(letters, width, line_break="\n"):
    return line_break.join(
        [letters[start : start + width] for start in range(0, len(letters), width)]
    )


PLAIN = b64encode(TEXT.encode()).decode()
URLS = urlsafe_b64encode(TEXT.encode()).decode()
WRITTEN = {
    "one line": f"x: {PLAIN} y",
    "for URLs": f"x={URLS}&y",
    "without padding": f"x={PLAIN.rstrip('=')};",
    "64 letters": f"-----BEGIN-----\n{wrapped(PLAIN, 64)}\n-----END-----\n",
    "76 letters": wrapped(PLAIN, 76, "\r\n") + "\r\n",
    "a word below": wrapped(PLAIN[:304], 76) + "\nend\n",
    "indented": f"data: |\n    {wrapped(PLAIN, 60, chr(10) + '    ')}\nkey: value\n",
    "in JSON": '{"a": "' + wrapped(PLAIN, 76, "\\n") + '\\n"}',
    "behind an escape": f"first\\n{PLAIN}\\nnext",
    "an address": f"https://example.org/some/where/{URLS}?x=1",
    "of data": f'<img src="data:image/svg+xml;base64,{PLAIN}">',
    "escaped padding": f"?q={quote(PLAIN, safe='')}&y",
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_text_in_base64_is_read_and_can_be_written_as_it_stood(name):
    data = f"é {WRITTEN[name]}".encode()

    (found,) = encoded_texts(data)

    assert TEXT.startswith(found.text[:200])
    assert found.encoded(found.text) == data[found.start : found.end].decode()


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_windows_encodes_commands_in_utf_16(codec):
    data = b64encode("Get-Secret -Name 'x y'".encode(codec))

    (found,) = encoded_texts(b"powershell -EncodedCommand " + data)

    assert found.text == "Get-Secret -Name 'x y'"
    assert b64decode(found.encoded("ü")).decode(codec) == "ü"


def test_lines_that_are_no_text_together_are_read_one_by_one():
    first, second = b64encode(b"a text of 24 letters: ab"), b64encode(bytes(range(24)))

    found = [*encoded_texts(b"\n".join([second, first, second]))]

    assert [one.text for one in found] == ["a text of 24 letters: ab"]


@pytest.mark.parametrize(
    "text",
    [
        "d41d8cd98f00b204e9800998ecf8427e d41d8cd98f00b204e9800998ecf8427e",
        "-" * 80 + "\n" + "=" * 80 + "\n" + "/" * 80,
        "src/toolbus/redaction/secrets/secret_registry/of/many/words",
        "a_name_of_many_words_in_one AndAnotherOneInCamelCaseWithoutSigns",
        "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
    ],
)
def test_what_is_no_text_is_left_alone(text):
    assert [*encoded_texts(text.encode())] == []


SURROUNDING = st.text(st.sampled_from(' \n\t.,:;"<>{}()%\\é日'), max_size=6)


@given(
    SURROUNDING,
    st.text(st.sampled_from(string.printable[:-3] + "éß日"), min_size=24, max_size=200),
    st.sampled_from([0, 60, 64, 76]),
    st.booleans(),
    SURROUNDING,
)
def test_any_text_between_others_comes_back_as_it_was(before, text, width, for_urls, after):
    letters = (urlsafe_b64encode if for_urls else b64encode)(text.encode()).decode()
    data = f"{before} {wrapped(letters, width) if width else letters} {after}".encode()

    (found,) = encoded_texts(data)

    written = data[: found.start] + found.encoded(found.text).encode() + data[found.end :]
    assert (found.text, written) == (text, data)


@pytest.mark.parametrize("made", ["A", "AAAA\n", "QUFB", "/", "QUFB" * 16 + "\n", "aaaa/", "\\n"])
def test_a_text_that_is_made_to_be_slow_is_read_in_one_go(made):
    # What is not linear would take minutes here.
    data = (made * 100_000)[:100_000].encode()

    assert sum(len(found.text) for found in encoded_texts(data)) <= len(data)
