import asyncio
from itertools import count

import pytest

from toolbus import Agent
from toolbus.messages.record_walker import rewrite_response
from toolbus.messages.records import ToolResponse
from toolbus.models.scripted import ScriptedModel
from toolbus.redaction.limits import UnexaminedError
from toolbus.redaction.placeholders import evened
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.redaction.secrets.engine import Engine
from toolbus.redaction.secrets.names import NameKind
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import Rule

ENGINE = Engine((Rule("mark", r"\bMARK-([0-9a-f]{20})\b"),))
SECRET, OTHER = "0123456789abcdef9876", "fedc01ba23984576fedc"


def redactor(**options):
    return Redactor(ENGINE, **{"chars": 10_000_000, "seconds": 600.0} | options)


def clean(text, one=None, **options):
    response = ToolResponse.from_text(text)
    return asyncio.run((one or redactor()).clean("s", response, rewrite_response, **options)).text


def test_time_is_told_by_the_clock_that_was_given():
    times = count(0.0, 0.4)

    with pytest.raises(UnexaminedError, match="longer than 1 seconds"):
        clean("x" * 1_000_000, redactor(seconds=1.0, clock=lambda: next(times)))


async def test_turns_of_others_take_none_of_its_time(monkeypatch):
    now = 0.0

    async def sleep(_):
        nonlocal now
        now += 1_000.0

    monkeypatch.setattr("toolbus.redaction.limits.SLICE", -1.0)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    one, response = redactor(seconds=1.0, clock=lambda: now), ToolResponse.from_text("x" * 600_000)

    assert await one.clean("s", response, rewrite_response) is response
    assert now >= 4_000.0


def test_what_fails_inside_is_told_without_what_was_looked_at(caplog):
    def fail(record, pen):
        raise ValueError(SECRET)

    with pytest.raises(UnexaminedError) as raised:
        asyncio.run(redactor().clean("s", ToolResponse(), fail))

    assert raised.value.reason == "the scan failed"
    assert raised.value.__suppress_context__
    assert SECRET not in caplog.text


def test_a_secret_that_stands_everywhere_is_withheld(monkeypatch):
    monkeypatch.setattr("toolbus.redaction.secrets.examination._MOST_PLACES", 1_000)
    text = f"MARK-{SECRET} " + f"{SECRET} " * 1_100

    with pytest.raises(UnexaminedError, match="more than 1,000 places"):
        clean(text)


def test_without_a_look_only_what_is_known_is_taken_out():
    one = redactor()
    clean(f"MARK-{SECRET}", one)

    assert evened(clean(f"MARK-{OTHER} {SECRET}", one, look=False)) == f"MARK-{OTHER} [mark-1]"


def test_a_stream_goes_on_with_its_own_last_text_only():
    one = redactor()

    first = clean(f"MARK-{SECRET[:9]}", one, stream="a")
    elsewhere = clean(SECRET[9:], one, stream="b")
    second = clean(SECRET[9:], one, stream="a")

    assert (first, elsewhere, second) == (f"MARK-{SECRET[:9]}", SECRET[9:], "")


def test_two_sessions_have_their_own_placeholders():
    one = redactor()
    response = ToolResponse.from_text(f"MARK-{SECRET} MARK-{OTHER}")
    other = ToolResponse.from_text(f"MARK-{OTHER}")

    first = asyncio.run(one.clean("1", response, rewrite_response)).text
    second = asyncio.run(one.clean("2", other, rewrite_response)).text
    assert evened(f"{first} {second}") == "MARK-[mark-1] MARK-[mark-2] MARK-[mark-3]"


def test_a_result_is_looked_through_once_although_it_is_stored(monkeypatch):
    seen, find = [], Engine.find

    def counting(engine, data, spans=None):
        seen.append(len(data))
        return find(engine, data, spans)

    def read() -> str:
        """Read."""
        return "clean text " * 10_000

    async def run():
        components = [RedactSecrets()]
        async with Agent(ScriptedModel([]), tools=[read], components=components) as agent:
            await agent.call_tool("read")

    monkeypatch.setattr(Engine, "find", counting)
    asyncio.run(run())

    assert max(seen) == 110_000
    assert sum(seen) < 111_000


def test_a_rule_without_a_name_says_itself_how_a_value_may_look():
    pattern = r"mark (\S+)"
    chosen = Redactor(
        Engine((Rule("mark", pattern, loose=True, kind=NameKind.PASSWORD),)),
        chars=10_000_000,
        seconds=600.0,
    )
    random = Redactor(Engine((Rule("mark", pattern, loose=True),)), chars=10_000_000, seconds=600.0)

    assert "Hunters" not in clean("mark Hunters2!", chosen)
    assert clean("mark Hunters2!", random) == "mark Hunters2!"
