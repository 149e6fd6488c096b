"""Secrets in any text and in any disguise that is looked through: gone, and nothing else is."""

import asyncio
from base64 import b64decode, b64encode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.messages.immutable import freeze
from toolbus.messages.record_walker import rewrite_response
from toolbus.messages.records import ToolResponse
from toolbus.redaction.secrets.engine import Engine
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import Rule

ENGINE = Engine((Rule("mark", r"MARK-([0-9a-f]{24})\b"),))
SECRET = "0123456789abcdef98761357"
MARKED = f"MARK-{SECRET}"
UNSEEN = (
    *("\x1b[31m", "\x1b[1m\x1b[K", "\\u001b[0m", "\\x1b[0;1m"),
    *("\u200b", "\u00ad", "\ufeff", "\\\n"),
)
AROUND = st.text(
    st.sampled_from("abc MARK-019\n\t.,:;<>(){}[]=\"'\\%&|é日\u00a0\x1b\u200b"), max_size=30
)
LONG = "some text before it, and so that it is long: "


def redactor():
    return Redactor(ENGINE, chars=1_000_000, seconds=600.0)


def clean(text, one=None):
    return asyncio.run(
        (one or redactor()).clean("s", ToolResponse.from_text(text), rewrite_response)
    ).text


def cut(text, unseen, size):
    return unseen.join([text[start : start + size] for start in range(0, len(text), size)])


@given(AROUND, AROUND, st.sampled_from(UNSEEN), st.integers(1, 29))
def test_what_is_not_seen_between_letters_hides_none(before, after, unseen, size):
    one = redactor()

    cleaned = clean(f"{before} {cut(MARKED, unseen, size)} {after}", one)

    assert SECRET not in cleaned
    assert "[mark-" in cleaned
    assert cleaned.startswith(before)
    assert cleaned.endswith(f" {after}")
    assert clean(cleaned, one) == clean(cleaned) == cleaned


@given(
    AROUND,
    AROUND,
    st.sampled_from(["\n", "\r\n", "\n    ", "\\\n  "]),
    st.integers(4, 24),
)
def test_what_is_known_is_found_in_lines_of_any_width(before, after, line_break, size):
    one = redactor()
    clean(MARKED, one)

    cleaned = clean(f"{before}. {cut(SECRET, line_break, size)} .{after}", one)

    assert cleaned.startswith(f"{before}. [mark-")
    assert cleaned.endswith(f"] .{after}")
    assert clean(cleaned, one) == cleaned


@given(
    AROUND,
    AROUND,
    st.sampled_from([0, 60, 64, 76]),
    st.sampled_from([b64encode, urlsafe_b64encode]),
    st.sampled_from(["utf-8", "utf-16-le"]),
)
def test_a_text_in_base64_is_cleaned_and_still_one(before, after, width, encode, codec):
    letters = encode(f"{LONG}{MARKED} é {LONG}".encode(codec)).decode()
    written = cut(letters, "\n", width) if width else letters

    cleaned = clean(f"{before}\n{written}\n.{after}")

    assert cleaned.startswith(f"{before}\n{letters[:40]}")
    assert cleaned.endswith(f"\n.{after}")
    left = cleaned[len(before) + 1 : -len(after) - 2].replace("-", "+").replace("_", "/")
    assert SECRET not in b64decode(left).decode(codec)
    assert clean(cleaned) == cleaned


def test_a_leaf_of_json_in_base64_is_cleaned():
    inner = b64encode(f"{LONG}{MARKED}".encode()).decode()
    response = ToolResponse(structured=freeze({"file": {"content": inner}, "other": ["a", inner]}))

    cleaned = asyncio.run(redactor().clean("s", response, rewrite_response)).structured

    assert cleaned["file"]["content"] == cleaned["other"][1] != inner
    assert cleaned["other"][0] == "a"


def test_what_is_known_is_found_in_lines_of_a_leaf_and_in_json_as_a_text():
    one = redactor()
    clean(MARKED, one)
    binary = b64encode(bytes(range(20)) + SECRET.encode() + bytes(range(20))).decode()
    leaf = freeze({"file": cut(binary, "\n", 40)})
    response = ToolResponse(structured=leaf)

    structured = asyncio.run(one.clean("s", response, rewrite_response)).structured
    text = clean('{"file": "' + cut(binary, "\\n", 40) + '"}', one)

    assert "[mark-" in structured["file"]
    assert "[mark-" in text
    assert binary[44:56] not in structured["file"] + text


def test_two_long_texts_in_base64_that_are_alike_stay_two():
    inner = b64encode(f"{LONG * 20}{MARKED}".encode()).decode()

    first, second = clean(f"{inner}, {inner}").split(", ")

    assert first == second != inner


@pytest.mark.parametrize("made", ["\x1b", "QUFB", "\\\n", "QUFB" * 16 + "\n", "\x1b[m1", "\n"])
def test_what_is_made_to_be_slow_is_looked_through(made):
    # What is not linear would take minutes here.
    one = redactor()
    clean(MARKED, one)
    text = (made * 100_000)[:100_000]

    assert clean(f"{text} {MARKED}", one).endswith("]")
