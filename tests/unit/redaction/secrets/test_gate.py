"""The gate passes nothing that an examination would change or remember."""

import asyncio

import pytest
from benchmarks.redaction import corpus, sets, texts
from hypothesis import given
from hypothesis import strategies as st

from toolbus.messages.parts import TextPart
from toolbus.messages.record_walker import rewrite_response
from toolbus.messages.records import ToolResponse
from toolbus.redaction.secrets.engine import engine_for
from toolbus.redaction.secrets.examination import Examination
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import choose

ENGINE = engine_for(choose((), (), {}))
PIECE, TOGETHER = 2_000, 12

CASES = {
    "examples": lambda: [one.text for one in corpus.examples()],
    "unlisted": lambda: [one.text for one in corpus.unlisted()],
    "lookalikes": corpus.lookalikes,
    "everyday": lambda: [one.text for one in sets.everyday(values=1)],
    "formats": lambda: [one.text for one in sets.formats(values=1)],
    "ids": lambda: [one.text for one in sets.ids_to_hand_back(values=1)],
    "python": lambda: list(pieces(one.text for one in texts.python(limit=50_000))),
    "search": lambda: list(pieces(one.text for one in texts.search(limit=100_000))),
    "logs": lambda: list(pieces(one.text for one in texts.logs(limit=100_000))),
}
SHAPES = {
    "text": ToolResponse.from_text,
    "structured": lambda text: ToolResponse(structured={"said": text, "all": ["one", text]}),
    "cut": lambda text: ToolResponse(
        content=(TextPart(text=text[: len(text) // 2]), TextPart(text=text[len(text) // 2 :]))
    ),
}


def pieces(whole):
    for text in whole:
        yield from [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def redactor():
    return Redactor(ENGINE, chars=10_000_000, seconds=600.0)


def cleaned(responses, *, gate):
    """Return the responses without secrets, and how many the gate has passed."""
    one, passed, clean = redactor(), 0, []
    begin = Examination.begin

    def look(examination):
        nonlocal passed
        ends = gate and begin(examination)
        passed += ends
        return ends

    async def run():
        for number, response in enumerate(responses):
            session = f"s-{number // TOGETHER}"
            clean.append(await one.clean(session, response, rewrite_response, stream="read"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Examination, "begin", look)
        asyncio.run(run())
    return clean, passed


@pytest.mark.parametrize(
    "shape",
    ["text", pytest.param("structured", marks=pytest.mark.full), "cut"],
)
@pytest.mark.parametrize("name", CASES)
def test_an_examination_alone_finds_no_more_than_one_behind_the_gate(name, shape):
    responses = [SHAPES[shape](text) for text in CASES[name]()]
    assert responses

    assert cleaned(responses, gate=True)[0] == cleaned(responses, gate=False)[0]


def test_the_gate_is_of_use():
    responses = [SHAPES["text"](text) for text in CASES["search"]()]

    _, passed = cleaned(responses, gate=True)

    assert passed > len(responses) / 2


TOKEN = "ghp_" + "8vXq3LmZ0aTn5RkW7yBc9DfG2hJ4pS6uE1iO"
FRAGMENTS = (
    TOKEN[:20], TOKEN[20:], TOKEN, "password", "token", ": ", "=", "\\", "\n", "\\n", '"', " ",
    "\x1b[31m", "\xad", "Z2hwXzh2WHEzTG1aMGFUbjVSa1c3eUJjOURmRzJoSjRwUzZ1RTFpTw==", "q7Zr9LpX2m",
)  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join), max_size=5))
def test_what_is_cut_over_results_of_a_stream_is_found_behind_the_gate_as_well(said):
    responses = [SHAPES["text"](text) for text in said]

    assert cleaned(responses, gate=True)[0] == cleaned(responses, gate=False)[0]


def test_a_record_waits_for_one_that_is_being_examined():
    one, response = redactor(), SHAPES["text"]("nothing at all")

    async def run():
        async with one.registry("s", None).lock.current():
            cleaning = asyncio.create_task(one.clean("s", response, rewrite_response))
            await asyncio.sleep(0.01)
            assert not cleaning.done()
        return await cleaning

    assert asyncio.run(run()) is response


def test_a_large_record_is_left_to_the_examination():
    response = SHAPES["text"]("a b " * 50_000)

    assert cleaned([response], gate=True) == ([response], 0)
