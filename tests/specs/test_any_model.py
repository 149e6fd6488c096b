"""The scenarios of `specs/any_model.md`; the instructions are for models that only follow them."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct
from tests.servers.fake_provider import FakeProvider

from toolbus import Agent, AssistantMessage, Deny, ToolMessage, events, tool
from toolbus.messages import encode
from toolbus.models import ReplayModel
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.store import SqliteStore

ROOT = Path(__file__).parents[2]
BRIEF = "You are in a test. Do exactly what you are told, in as few words as possible."
SECRET = "ghp_" + "x4Kd92LmQa" * 3 + "Zt81Rv"
COUNTED = ", ".join(map(str, range(1, 41)))
ADDING = [("call", "c1", "add", '{"a": 17, "b": 25}')]
ADD = "Call the tool `add` with a=17 and b=25. Then say the number that it returned."


class City(Struct):
    name: str
    country: str


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def streamed(agent, prompt):
    """Return the texts of the pieces of a run, and its result."""
    *pieces, result = [item async for item in agent.stream(prompt)]
    texts = [piece.text for piece in pieces if isinstance(piece, events.ModelDelta)]
    shown = [
        piece.text
        for piece in pieces
        if isinstance(piece, events.ModelDelta) and piece.kind == "text"
    ]
    return texts, shown, result


def answers_to(agent):
    """Return the answers to the calls of a session, each of which must have one."""
    messages = [m for m in agent.messages if isinstance(m, AssistantMessage)]
    asked = [call.id for message in messages for call in message.tool_calls]
    answers = [m for m in agent.messages if isinstance(m, ToolMessage)]
    assert sorted(asked) == sorted(answer.tool_call_id for answer in answers)
    return answers


async def test_a_tool_is_called(any_model):
    async with any_model(ADDING, [("text", "42")]) as model:
        agent = Agent(model, tools=[add], system=BRIEF)
        result = await agent.run(ADD)

    assert result.status == "ok"
    assert "42" in result.text
    assert result.usage["input_tokens"] > 0
    assert result.usage["output_tokens"] > 0
    assert "42" in [answer.text for answer in answers_to(agent)]
    (asking, *_) = [m for m in agent.messages if isinstance(m, AssistantMessage)]
    assert dict(asking.tool_calls[0].arguments) == {"a": 17, "b": 25}


async def test_several_calls_are_answered(any_model):
    degrees = {"Oslo": 3, "Lima": 21, "Cairo": 34}
    script = [("call", city, "weather", f'{{"city": "{city}"}}') for city in degrees]

    @tool
    async def weather(city: str) -> str:
        """Tell the temperature of a city."""
        return f"{degrees[city]} degrees"

    async with any_model(script, [("text", "3, 21 and 34 degrees.")]) as model:
        agent = Agent(model, tools=[weather], system=BRIEF)
        prompt = (
            "Call the tool `weather` for Oslo, Lima and Cairo, in parallel, and list the numbers."
        )
        _, shown, result = await streamed(agent, prompt)

    assert result.status == "ok"
    assert {answer.text for answer in answers_to(agent)} >= {
        f"{number} degrees" for number in degrees.values()
    }
    assert all(str(number) in result.text for number in degrees.values())
    assert "".join(shown).endswith(result.text)


async def test_a_stream_is_the_answer(any_model):
    async with any_model([("text", COUNTED)]) as model:
        agent = Agent(model, system=BRIEF)
        _, shown, result = await streamed(agent, "Count from 1 to 40, with commas between.")

    assert result.status == "ok"
    assert len(shown) > 1
    assert "".join(shown) == result.text == agent.messages[-1].text
    assert "39" in result.text


async def test_an_answer_has_its_type(any_model):
    script = [("text", '{"name": "Rome", "country": "Italy"}')]
    async with any_model(script) as model:
        agent = Agent(model, output_type=City, system=BRIEF)
        result = await agent.run("What is the capital of Italy? Its English name.")

    assert result.output == City("Rome", "Italy")


async def test_a_guard_denies_a_tool(any_model):
    deleted = []

    @tool
    def delete_file(path: str) -> str:
        """Delete a file."""
        deleted.append(path)
        return "deleted"

    script = [("call", "c1", "delete_file", '{"path": "notes.txt"}')]
    async with any_model(script, [("text", "I was not allowed to.")]) as model:
        agent = Agent(model, tools=[delete_file], system=BRIEF)
        agent.guard(events.TOOL_CALL_BEFORE, lambda ctx: Deny("files are kept here"))
        result = await agent.run(
            "Call the tool `delete_file` with path=notes.txt, once. Then say whether it worked."
        )

    assert (result.status, deleted) == ("ok", [])
    answers = answers_to(agent)
    assert answers
    assert all("files are kept here" in answer.text for answer in answers)


async def test_secrets_do_not_reach_the_model(any_model, tmp_path):
    @tool
    def read_settings() -> str:
        """Read the settings."""
        return f"GITHUB_TOKEN={SECRET}\nLEVEL=3"

    sent = []
    script = [("call", "c1", "read_settings", "{}")]
    path = tmp_path / "s.db"
    async with (
        any_model(script, [("text", "GITHUB_TOKEN and LEVEL=3")]) as model,
        SqliteStore(path) as store,
        Agent(
            model, tools=[read_settings], components=[RedactSecrets()], store=store, system=BRIEF
        ) as agent,
    ):
        agent.on(events.MODEL_CALL_AFTER, lambda ctx: sent.append(encode(ctx.value.request)))
        prompt = "Call the tool `read_settings`, and then repeat all that it returned."
        texts, _, result = await streamed(agent, prompt)
        told = b"".join(map(encode, agent.messages))

    assert result.status == "ok"
    assert answers_to(agent)
    assert "LEVEL=3" in result.text
    files = b"".join(file.read_bytes() for file in tmp_path.glob("s.db*"))
    for data in ("".join(texts).encode(), told, *sent, files):
        assert SECRET.encode() not in data
    assert len(sent) >= 2


async def test_refused_text_is_not_shown(any_model):
    async with any_model([("text", "The word is abracadabra.")]) as model:
        agent = Agent(model, system=BRIEF)
        agent.guard(
            events.MESSAGE_APPEND_BEFORE,
            lambda ctx: Deny("no magic") if "abra" in ctx.value.text.lower() else None,
            roles="assistant",
        )
        _, shown, result = await streamed(agent, "Say the magic word that begins with abracad.")

    assert (result.status, result.reason) == ("denied", "no magic")
    assert shown == []
    assert [message.role for message in agent.messages] == ["system", "user"]


async def test_a_session_resumes_in_another_process(any_model, tmp_path):
    options = {"tools": [add], "session_id": "s", "system": BRIEF}
    script = [ADDING, [("text", "42")], [("text", "4711")]]
    prompt = f"{ADD} And remember that my number is 4711."

    async with any_model(*script) as model:
        async with (
            SqliteStore(tmp_path / "s.db") as store,
            Agent(model, store=store, **options) as agent,
        ):
            await agent.run(prompt)
        async with (
            SqliteStore(tmp_path / "s.db") as store,
            Agent(model, store=store, **options) as agent,
        ):
            result = await agent.run("Which is my number? Say it without calling a tool.")
            roles = [message.role for message in agent.messages]

    assert "4711" in result.text
    assert roles[:4] == ["system", "user", "assistant", "tool"]
    assert roles[-2:] == ["user", "assistant"]


async def test_a_session_is_replayed(any_model, tmp_path):
    path = tmp_path / "s.db"
    async with (
        any_model(ADDING, [("text", "42")]) as model,
        SqliteStore(path) as store,
        Agent(model, tools=[add], store=store, system=BRIEF) as agent,
    ):
        _, shown, _ = await streamed(agent, ADD)
        answers = [m for m in agent.messages if isinstance(m, AssistantMessage)]
    recording = ReplayModel.from_file(path)
    again = Agent(recording, tools=[add], system=BRIEF)

    _, shown_again, result = await streamed(again, ADD)

    assert [m for m in again.messages if isinstance(m, AssistantMessage)] == answers
    assert "".join(shown_again) == "".join(shown)
    assert (result.status, recording.deviations) == ("ok", [])


def run_live(*options, **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLBUS_")}
    files = [f"tests/specs/test_{name}.py" for name in ("any_model", "models")]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", *options, *files],
        cwd=ROOT,
        env=kept | {"TOOLBUS_TESTS": "live", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.full
async def test_only_live_tests_run():
    names = ["openai:m", "anthropic:n"]
    keys = {"OPENAI_API_KEY": "k-1", "ANTHROPIC_API_KEY": "k-2"}
    done = run_live("--collect-only", TOOLBUS_LIVE_MODELS=" ".join(names), **keys)
    async with FakeProvider(lambda _: [("text", COUNTED)]) as server:
        keys["OPENAI_BASE_URL"] = f"{server.url}/v1"
        asked = {"TOOLBUS_LIVE_MODELS": "openai:m", **keys}
        answered = await asyncio.to_thread(run_live, "-k", "stream_is_the_answer", **asked)
        wrong = await asyncio.to_thread(run_live, "-k", "a_tool_is_called", **asked)

    tests = [name for name, thing in globals().items() if "any_model" in parameters_of(thing)]
    lines = [line for line in done.stdout.splitlines() if "::" in line]
    expected = [
        f"tests/specs/test_any_model.py::{test}[{name}]" for test in tests for name in names
    ]
    assert done.returncode == 0
    assert lines == expected
    assert len(tests) == 9
    assert "1 passed" in answered.stdout
    assert "1 failed" in wrong.stdout
    assert [seen.body["model"] for seen in server.requests] == ["m", "m"]


def parameters_of(thing):
    code = getattr(getattr(thing, "__wrapped__", thing), "__code__", None)
    return code.co_varnames[: code.co_argcount] if code else ()


@pytest.mark.full
@pytest.mark.parametrize(
    ("variables", "way_out"),
    [
        ({}, 'needs models to ask; set TOOLBUS_LIVE_MODELS="anthropic:NAME'),
        ({"TOOLBUS_LIVE_MODELS": "opanai:m"}, "did you mean 'openai'?"),
        ({"TOOLBUS_LIVE_MODELS": "openai:m", "OPENAI_API_KEY": ""}, "set OPENAI_API_KEY"),
    ],
)
def test_missing_models_are_reported(variables, way_out):
    done = run_live(**{"OPENAI_BASE_URL": "", **variables})

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.startswith("ERROR: ")
    assert way_out in done.stderr
