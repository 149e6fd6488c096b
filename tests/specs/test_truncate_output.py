"""The scenarios of `specs/truncate_output.md`."""

import json
import random
import re
import subprocess
import sys
import tracemalloc

import pytest

from toolbus import (
    Agent,
    AgentComponent,
    AssistantMessage,
    Deny,
    EventBus,
    Scope,
    TextPart,
    Tool,
    ToolAdapter,
    ToolCall,
    ToolMessage,
    ToolResponse,
    ToolSpec,
    UserMessage,
    guard,
    tool,
)
from toolbus.config.targets import load_configuration
from toolbus.errors import ConfigurationError, RegistrationError
from toolbus.events import MESSAGE_APPEND_BEFORE
from toolbus.formats.native import EndLine, HeaderLine, MessageLine, SessionLine, encode_line
from toolbus.messages import ImagePart, Resource, ResourcePart
from toolbus.models.scripted import ScriptedModel
from toolbus.store.sqlite import SqliteStore
from toolbus.tools import Toolset
from toolbus.truncation.budgets import estimate
from toolbus.truncation.truncate_output import TruncateOutput

LINES = "".join([f"line {n} of the output\n" for n in range(1, 5001)])
SECRET = "hunter2-canary"
PROXY = [sys.executable, "-m", "toolbus", "proxy"]
USE = "toolbus.truncation.truncate_output:TruncateOutput"


class Stage:
    """A host of components without an agent."""

    def __init__(self):
        self.bus, self.tools, self.scope = EventBus(), Toolset(), Scope(agent_id="a")


async def shown(component, response, *, spec=None, session="s", agent="a"):
    """Return what is left of *response* past *component*."""
    if component.host is None:
        component.setup(Stage())
    if isinstance(response, str):
        response = ToolResponse.from_text(response)
    message = ToolMessage(id="m", tool_call_id="c", tool_name="t", tool_response=response)
    scope = Scope(agent_id=agent, session_id=session)
    context = await component.host.bus.apply(MESSAGE_APPEND_BEFORE, message, scope=scope, tool=spec)
    assert not context.denied
    return context.value.tool_response


def returning(value, name="get"):
    """Return a tool that returns *value*."""

    @tool(name=name, description="Get it.", input_schema={"type": "object"})
    def get():
        if isinstance(value, Exception):
            raise value
        return value

    return get


def agent_with(*components, tools=(), answers=(), **options):
    return Agent(ScriptedModel(answers), tools=tools, components=components, **options)


async def told(agent, name, **arguments):
    """Return what the model reads of a call."""
    await agent.call_tool(name, arguments)
    return agent.messages[-1].text


def reference(text):
    return re.search(r"output-[0-9a-f]{12}", text)[0]


def onward(text):
    """Return where a page says that one reads on; None at the end."""
    found = re.findall(r"(?:read|search) on with (line|offset)=(\d+)\]$", text)
    return {found[0][0]: int(found[0][1])} if found else None


async def pages(agent, name, start=None):
    """Give page after page."""
    where = {} if start is None else start
    while where is not None:
        page = await told(agent, "read_more", reference=name, **where)
        where = onward(page)
        yield page


async def test_head_and_tail_stay():
    async with agent_with(TruncateOutput(characters=1000), tools=[returning(LINES)]) as agent:
        text = await told(agent, "get")

    body, notice = text.rsplit("\n", 1)
    head, mark, tail = re.split(r"(\[… [\d,]+ lines left out …\]\n)", body)
    assert LINES.startswith(head)
    assert LINES.endswith(tail + "\n")
    assert head.endswith("\n")
    assert tail.startswith("line ")
    missing = 5000 - head.count("\n") - tail.count("\n") - 1
    assert f"{missing:,}" in mark
    assert f'read_more(reference="{reference(text)}", line={head.count(chr(10)) + 1})' in notice


async def test_every_limit_holds():
    texts = [LINES, "x" * 90_000, "\n" * 90_000, "a b\n" * 30_000, "日本語" * 20_000, "é\n" * 9_000]
    texts += [json.dumps([{"id": n, "said": "é\n" * n} for n in range(400)], indent=2)]

    for text in texts:
        characters = await shown(TruncateOutput(characters=3000), text)
        tokens = await shown(TruncateOutput(tokens=500), text)
        both = await shown(TruncateOutput(characters=3000, tokens=500), text)
        assert len(characters.text) <= 3000
        assert estimate(tokens.text) <= 500
        assert len(both.text) <= 3000
        assert estimate(both.text) <= 500


async def test_a_fitting_result_is_unchanged():
    component = TruncateOutput(characters=200)
    component.setup(Stage())
    fitting = [
        ToolResponse.from_text("x" * 200),
        ToolResponse(structured={"a": [1, 2]}, content=(TextPart(text="é"),)),
        ToolResponse(),
    ]
    others = [
        UserMessage(id="u", content="x" * 300),
        AssistantMessage(id="a", content="x" * 300),
        ToolMessage(id="t", content="x" * 300, tool_call_id="c", tool_name="t"),
    ]

    left = [await shown(component, one) for one in fitting]
    passed = [
        (await component.host.bus.apply(MESSAGE_APPEND_BEFORE, one, scope=Scope())).value
        for one in others
    ]

    assert all(one is two for one, two in zip(left, fitting, strict=True))
    assert all(one is two for one, two in zip(passed, others, strict=True))


async def test_a_shortened_result_is_unchanged():
    component = TruncateOutput(characters=1000, tokens=300, words=["2500"], part_bytes=10)
    spec = ToolSpec(name="t", output_schema={"type": "object"})
    image = ImagePart(data="A" * 100, mime_type="image/png")
    long = {"items": list(range(9000))}
    responses = [
        ToolResponse.from_text(LINES),
        ToolResponse.from_text(json.dumps(long)),
        ToolResponse(structured=long),
        ToolResponse(structured=long, content=(TextPart(text="x" * 990), image)),
        ToolResponse(content=tuple([TextPart(text="one\n" * n) for n in range(90)])),
    ]

    for response in responses:
        for one in (spec, None):
            first = await shown(component, response, spec=one)
            again = await shown(component, first, spec=one)
            assert first is not response or one is None
            assert again is first


async def test_failed_results_are_shortened():
    failing = returning(ValueError(LINES))
    async with agent_with(TruncateOutput(characters=1000), tools=[failing]) as agent:
        await agent.call_tool("get")
        response = agent.messages[-1].tool_response

    assert response.is_error
    assert response.error_type == "ValueError"
    assert len(response.text) <= 1000
    assert "line 1 of" in response.text


async def test_matching_lines_stay():
    middle = LINES.replace("line 2500", "LINE 2500 Error!").replace("line 3100", "error 3100")

    by_words = await shown(TruncateOutput(characters=2000, words=["eRROR", "zzz"]), middle)
    without = await shown(TruncateOutput(characters=2000, words=["nowhere"]), middle)

    around = "line 2499 of the output\nLINE 2500 Error! of the output\nline 2501 of the output\n"
    assert around in by_words.text
    assert "error 3100" in by_words.text
    assert len(without.text) > 1700


async def test_texts_share_the_limit():
    resource = Resource(uri="file:///log", text=LINES)
    parts = (TextPart(text="short"), TextPart(text=LINES), ResourcePart(resource=resource))

    left = await shown(TruncateOutput(characters=3000), ToolResponse(content=parts))

    assert left.content[0] is parts[0]
    assert left.content[2].resource.uri == "file:///log"
    assert min(len(left.content[1].text), len(left.content[2].resource.text)) > 900
    assert len(left.text) <= 3000
    # Each names the place in the whole where it goes on.
    places = [int(one) for one in re.findall(r", line=(\d+)\)", left.text)]
    assert places[0] < 100
    assert places[1] > 5000


async def test_many_texts_become_one():
    image = ImagePart(data="AAAA", mime_type="image/png")
    texts = [TextPart(text=f"text {n}") for n in range(1000)]
    parts = (*texts[:500], image, *texts[500:])

    left = await shown(TruncateOutput(characters=1000), ToolResponse(content=parts))

    assert left.content[500] is image
    assert len(left.content) == 501
    assert left.content[0].text.startswith("text 0\ntext 1\n")
    assert len(left.text) <= 1000 + 500


CHARACTERS = [
    "e\u0301\u0323",
    "👨‍👩‍👧‍👦",
    "🇩🇪",
    "👍🏽",
    "한",
    "\u1112\u1161\u11ab",
    "\r\n",
    "ก็",
    "☀\ufe0f",
]


async def test_characters_stay_whole():
    draw = random.Random(4)
    for size in range(200, 400):
        whole = [draw.choice(CHARACTERS) for _ in range(2000)]
        # Flags in a row pair from the first one on, so that text tells where they begin.
        text = "".join(whole)

        left = (await shown(TruncateOutput(characters=size), text)).text

        body = left.rsplit("\n[Shortened", 1)[0]
        pieces = re.split(r" ?\[… [\d,]+ (?:characters|lines?) left out …\][ \n]", body)
        for piece in pieces:
            assert _fits_whole(piece, whole), (size, piece)


def _fits_whole(piece, whole):
    """Tell whether *piece* is made of whole characters of *whole*, but for its last line end."""
    at = 0
    known = sorted(set(whole), key=len, reverse=True)
    while at < len(piece):
        found = next((one for one in known if piece.startswith(one, at)), None)
        if found is None:
            return piece[at:] == "\r"  # its line end joined the notice's
        at += len(found)
    return True


async def test_json_stays_json():
    deep = value = []
    for _ in range(150):
        value.append([])
        value = value[0]
    value.extend(["x" * 10] * 900)
    kinds = {
        "object": {"meta": {"page": 1}, "items": [{"id": n} for n in range(5000)], "next": "token"},
        "array": list(range(9000)),
        "string": "word " * 9000,
        "strings": {"a": '\x00\n"é🇩🇪' * 4000, "b": "y" * 9000},
        "members": {f"key {n}": n for n in range(5000)},
        "key": {"k" * 9000: 1, "other": 2},
        "deep": deep,
    }

    left = {
        kind: (await shown(TruncateOutput(characters=1500), json.dumps(one))).text
        for kind, one in kinds.items()
    }

    read = {kind: json.loads(text) for kind, text in left.items()}
    assert all(type(read[kind]) is type(one) for kind, one in kinds.items())
    assert all(len(text) <= 1500 for text in left.values())
    assert all("read_more" in text for text in left.values())
    assert "items left out" in left["array"]
    assert "members left out" in left["members"]
    assert read["object"]["next"] == "token"
    assert read["object"]["items"][0] == {"id": 0}
    assert read["object"]["items"][-1] == {"id": 4999}


async def test_values_stay_as_they_were_written():
    text = '{"exact": 123456789012345678901234567890, "float": 1.0e5, "list": [%s]}'
    text %= ", ".join(["1.10"] * 9000)

    left = await shown(TruncateOutput(characters=1000), text)

    assert '"exact":123456789012345678901234567890,"float":1.0e5,' in left.text
    assert "1.10,1.10" in left.text
    assert json.loads(left.text)["toolbus:shortened"].startswith("[Shortened")


class Listing(Tool):
    """A tool with a long list."""

    name = "list"
    least = 0

    @property
    def spec(self):
        items = {"type": "array", "items": {"type": "integer"}, "minItems": self.least}
        schema = {"type": "object", "properties": {"items": items}, "required": ["items"]}
        return ToolSpec(name="list", output_schema=schema)

    def run(self):
        return ToolResponse(structured={"items": list(range(9000))}, content=(TextPart(text="ok"),))


async def test_a_structured_value_fits_its_schema():
    async with agent_with(TruncateOutput(characters=1000), tools=[Listing()]) as agent:
        await agent.call_tool("list")
        response = agent.messages[-1].tool_response

    items = response.structured["items"]
    assert items[0] == 0
    assert items[-1] == 8999
    assert 100 < len(items) < 9000
    assert all(type(one) is int for one in items)
    assert response.text.startswith("ok\n[The structured value")
    assert not response.is_error


async def test_a_value_that_cannot_fit_is_removed():
    listing = Listing()
    listing.least = 9000
    async with agent_with(TruncateOutput(characters=1000), tools=[listing]) as agent:
        await agent.call_tool("list")
        response = agent.messages[-1].tool_response
        page = await told(agent, "read_more", reference=reference(response.text), offset=0)

    assert response.structured is None
    assert not response.is_error
    assert "left out" in response.text
    assert page.startswith('{"items":[0,1,2')


async def test_images_stay_whole_or_are_removed():
    small = ImagePart(data="A" * 40, mime_type="image/png")
    large = ImagePart(data="A" * 40_000, mime_type="image/png")
    response = ToolResponse(content=(small, TextPart(text=LINES), large))

    untouched = await shown(TruncateOutput(characters=1000), response)
    limited = await shown(TruncateOutput(characters=1000, part_bytes=1000), response)

    assert untouched.content[0] is small
    assert untouched.content[2] is large
    assert limited.content[0] is small
    assert limited.content[2] == TextPart(
        text="[An image of type image/png, 30,000 bytes, left out]"
    )


async def test_all_pages_together_are_the_whole():
    single = "".join([f"{n}é🇩🇪," for n in range(3000)])
    tools = [returning(LINES, "lines"), returning(single, "single")]
    async with agent_with(TruncateOutput(characters=2000), tools=tools) as agent:
        of_lines, of_single = await told(agent, "lines"), await told(agent, "single")
        first = [page async for page in pages(agent, reference(of_lines))]
        second = [page async for page in pages(agent, reference(of_single))]

    assert "".join([page.rpartition("[")[0] for page in first]) == LINES
    assert "".join([page.rpartition("\n[")[0] for page in second]) == single
    assert all(len(page) <= 2000 for page in (*first, *second))
    assert "lines 1 to " in first[0]
    assert "this is the end" in first[-1]


async def test_a_search_finds_lines():
    single = json.dumps([{"id": n, "name": f"Name {n}"} for n in range(2000)])
    tools = [returning(LINES.replace("line 4000", "The Needle"), "lines"), returning(single, "one")]
    async with agent_with(TruncateOutput(characters=2000), tools=tools) as agent:
        of_lines, of_one = await told(agent, "lines"), await told(agent, "one")
        line = await told(agent, "read_more", reference=reference(of_lines), find="the needle")
        piece = await told(agent, "read_more", reference=reference(of_one), find='"name 777"')
        none = await told(agent, "read_more", reference=reference(of_one), find="x" * 1000)

    assert line.startswith("4000: The Needle of the output\n[1 line with 'the needle' from line 1")
    assert '"Name 777"' in piece
    offset = int(re.search(r"\[offset (\d+)\]", piece)[1])
    assert '"Name 777"' in single[offset : offset + 200]
    assert "[0 lines with" in none


async def test_a_search_goes_on():
    single = " ".join([f"mark{n}" + "." * 150 for n in range(300)])
    tools = [returning(LINES, "lines"), returning(single, "one")]
    async with agent_with(TruncateOutput(characters=2000), tools=tools) as agent:
        of_lines, of_one = await told(agent, "lines"), await told(agent, "one")
        lines = [p async for p in pages(agent, reference(of_lines), {"find": "7 of"})]
        where, marks = {}, []
        while where is not None:
            name = reference(of_one)
            page = await told(agent, "read_more", reference=name, find="mark", **where)
            marks += re.findall(r"mark\d+", page.rpartition("\n[")[0])
            where = onward(page)

    assert len(lines) == 1 or onward(lines[0])
    assert sorted(set(marks)) == sorted([f"mark{n}" for n in range(300)])


async def test_invalid_arguments_are_answered():
    async with agent_with(TruncateOutput(characters=2000), tools=[returning(LINES)]) as agent:
        name = reference(await told(agent, "get"))
        line = await told(agent, "read_more", reference=name, line=6000)
        offset = await told(agent, "read_more", reference=name, offset=10**9)
        unknown = await told(agent, "read_more", reference="../../etc/passwd")
        negative = await told(agent, "read_more", reference=name, line=0)

    assert line == f"[there is no line 6000: the output has 5,000 lines, {len(LINES):,} characters]"
    assert "there is no offset 1000000000" in offset
    assert "no output is kept as '../../etc/passwd'" in unknown
    assert "line" in negative
    assert agent.messages[-1].tool_response.is_error


class Longer(ToolAdapter):
    """Makes every result longer."""

    def adapt_response(self, response, call):
        return response.map_text(lambda text: text * 2)


async def test_pages_are_not_shortened():
    other = AgentComponent()
    other.register_tool_adapter(Longer())
    component = TruncateOutput(characters=2000)
    async with agent_with(component, other, tools=[returning(LINES)]) as agent:
        page = await told(agent, "read_more", reference=reference(await told(agent, "get")))

    assert len(page) > 2000
    assert "left out" not in page


async def test_a_whole_structured_value_can_be_read():
    async with agent_with(TruncateOutput(characters=1000), tools=[Listing()]) as agent:
        name = reference(await told(agent, "list"))
        read = [page async for page in pages(agent, name, {"offset": 0})]

    whole = "".join([page.rpartition("\n[")[0] for page in read])
    assert json.loads(whole) == {"items": list(range(9000))}


@pytest.mark.parametrize("on_disk", [False, True])
async def test_references_of_other_sessions_are_unknown(tmp_path, on_disk):
    folder = tmp_path / "kept" if on_disk else None
    component = TruncateOutput(characters=1000, folder=folder)
    component.setup(Stage())
    name = reference((await shown(component, LINES, session="one")).text)
    again = reference((await shown(component, LINES, session="two")).text)
    answers = {}
    for session in ("one", "two", "../one"):
        async with agent_with(
            TruncateOutput(characters=1000, folder=folder), session_id=session
        ) as agent:
            answers[session] = await told(agent, "read_more", reference=name)

    assert again != name
    assert ("line 1 of" in answers["one"]) == on_disk
    assert "no output is kept as" in answers["two"]
    assert "no output is kept as" in answers["../one"]


@pytest.mark.parametrize("on_disk", [False, True])
async def test_the_oldest_outputs_are_removed(tmp_path, on_disk):
    folder = tmp_path / "kept" if on_disk else None
    tools = [returning(f"{n} {LINES * 4}", f"get{n}") for n in range(3)]
    component = TruncateOutput(characters=1000, folder=folder, megabytes=1)
    async with agent_with(component, tools=tools) as agent:
        names = [reference(await told(agent, f"get{n}")) for n in range(3)]
        read = [await told(agent, "read_more", reference=name) for name in names]

    assert "no output is kept as" in read[0]
    assert read[1].startswith("1 line")
    assert read[2].startswith("2 line")


@pytest.mark.parametrize("on_disk", [False, True])
async def test_a_too_large_output_is_not_kept(tmp_path, on_disk):
    folder = tmp_path / "kept" if on_disk else None
    component = TruncateOutput(characters=1000, folder=folder, megabytes=1)

    left = await shown(component, "x" * 2_000_000)

    assert len(left.text) <= 1000
    assert "The rest cannot be read: it exceeds the limit" in left.text


async def test_a_sub_agent_learns_that_it_cannot_read_on():
    asks = AssistantMessage(id="1", tool_calls=(ToolCall(id="c", name="get"),))
    below = ScriptedModel([asks, "done"])
    bus = EventBus()
    sub = Agent(below, tools=[returning(LINES)], bus=bus)
    tools = [sub.as_tool(name="sub", description="Asks another agent.")]
    async with agent_with(TruncateOutput(characters=1000), tools=tools, bus=bus) as agent:
        await agent.call_tool("sub", {"prompt": "go"})

    read = below.requests[-1].messages[-1].text
    assert len(read) <= 1000
    assert "The rest cannot be read" in read
    assert "read_more" not in read


class Redact(ToolAdapter):
    """Takes the secret out."""

    def adapt_response(self, response, call):
        return response.map_text(lambda text: text.replace(SECRET, "[redacted]"))


@pytest.mark.parametrize("first", [True, False])
async def test_redaction_comes_first(tmp_path, first):
    redaction = AgentComponent()
    redaction.register_tool_adapter(Redact())
    size = TruncateOutput(characters=1000, folder=tmp_path / "kept")
    components = [size, redaction] if first else [redaction, size]
    secret = LINES.replace("line 2500", f"line {SECRET}")
    async with agent_with(*components, tools=[returning(secret)]) as agent:
        name = reference(await told(agent, "get"))
        read = [page async for page in pages(agent, name)]
        messages = [str(one) for one in agent.messages]

    kept = [path.read_text() for path in tmp_path.rglob("output-*")]
    assert len(kept) == 1
    assert not any(SECRET in text for text in (*kept, *read, *messages))
    assert any("line [redacted]" in page for page in read)


class NoSecrets(AgentComponent):
    """Denies results with the secret."""

    @guard(MESSAGE_APPEND_BEFORE)
    def judge(self, ctx):
        return Deny("no secrets") if SECRET in ctx.value.text else None


@pytest.mark.parametrize("on_disk", [False, True])
async def test_denied_outputs_are_not_kept(tmp_path, on_disk):
    size = TruncateOutput(characters=1000, folder=tmp_path / "kept" if on_disk else None)
    denied = f"{SECRET}\n{LINES}"
    tools = [returning(denied, "denied"), returning(LINES, "fine")]
    probe = TruncateOutput(characters=1000)
    name = reference((await shown(probe, denied, session="s")).text)
    async with agent_with(size, NoSecrets(), tools=tools, session_id="s") as agent:
        said = await told(agent, "denied")
        read = await told(agent, "read_more", reference=name)
        fine = await told(agent, "read_more", reference=reference(await told(agent, "fine")))

    assert said == "no secrets"
    assert "no output is kept as" in read
    assert fine.startswith("line 1 of")
    assert len(list(tmp_path.rglob("output-*"))) == on_disk


async def test_a_priority_above_redaction_is_refused():
    for priority in (50, 51, 300):
        with pytest.raises(RegistrationError, match="below 50"):
            TruncateOutput().restrict(priority=priority)

    left = await shown(TruncateOutput(characters=200).restrict(tools="t", priority=49), LINES)
    other = await shown(TruncateOutput(characters=200).restrict(tools="u"), LINES)

    assert len(left.text) <= 200
    assert len(other.text) == len(LINES)


async def test_a_resumed_session_reads_on(tmp_path):
    async with (
        SqliteStore(tmp_path / "store.db") as store,
        agent_with(
            TruncateOutput(characters=1000, folder=tmp_path / "kept"),
            tools=[returning(LINES)],
            store=store,
            session_id="s",
        ) as agent,
    ):
        name = reference(await told(agent, "get"))

    async with (
        SqliteStore(tmp_path / "store.db") as store,
        agent_with(
            TruncateOutput(characters=1000, folder=tmp_path / "kept"), store=store, session_id="s"
        ) as agent,
    ):
        resumed = agent.messages[-1].text
        page = await told(agent, "read_more", reference=name, line=2000)

    assert reference(resumed) == name
    assert page.startswith("line 2000 of")


async def test_files_are_for_the_owner(tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o777)
    others = [folder / "output-notes.txt", folder / "other" / "output-000.txt"]
    others[1].parent.mkdir()
    for one in others:
        one.write_text("mine")
    component = TruncateOutput(characters=1000, folder=folder, megabytes=1)

    for n in range(3):
        await shown(component, f"{n}{LINES * 6}")

    (file,) = [one for one in folder.glob("*/output-*.txt") if one not in others]
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert file.read_text() == f"2{LINES * 6}"
    assert all(one.read_text() == "mine" for one in others)


async def test_an_unwritable_folder_is_reported(tmp_path, caplog):
    (tmp_path / "kept").write_text("a file")

    left = await shown(TruncateOutput(characters=1000, folder=tmp_path / "kept"), LINES)

    assert len(left.text) <= 1000
    assert "it could not be written" in left.text
    assert "cannot be kept" in caplog.text


SERVER = """\
import json, sys
LINES = "".join([f"line {n} of the output\\n" for n in range(1, 1001)])
TOOLS = [{"name": f"get{n}", "inputSchema": {"type": "object"}} for n in range(50)]
def answer(method):
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "resources/list":
        return {"resources": [{"uri": f"file:///{n}", "name": str(n)} for n in range(200)]}
    if method == "resources/read":
        return {"contents": [{"uri": "file:///log", "text": LINES}]}
    if method == "tools/call":
        blocks = [{"type": "text", "text": LINES}, {"type": "new", "data": [1] * 900}]
        return {"content": blocks, "_meta": {"a": ["x"] * 900}}
    return {}
for line in sys.stdin:
    m = json.loads(line)
    if "id" in m:
        result = answer(m["method"])
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
"""


@pytest.fixture
def asked(command, tmp_path, environment):
    """Return a function that asks the server through the proxy, one request after the other."""
    here = tmp_path / "here"
    (here / "server.py").write_text(SERVER)
    config = f'[[component]]\nuse = "{USE}"\nsettings = {{ characters = 1000 }}\n'
    (here / "toolbus.toml").write_text(config)

    def run(*requests):
        process = subprocess.Popen(
            [*PROXY, "--config", "toolbus.toml", "--", sys.executable, "server.py"],
            cwd=here,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        answers = []
        with process:
            for own, request in enumerate(requests):
                method, params = request(answers) if callable(request) else request
                frame = {"jsonrpc": "2.0", "id": own, "method": method, "params": params}
                process.stdin.write(json.dumps(frame) + "\n")
                process.stdin.flush()
                answers.append(json.loads(process.stdout.readline())["result"])
            process.stdin.close()
        return answers

    return run


def test_a_client_of_the_proxy_reads_on(asked):
    def read(place):
        def request(answers):
            name = reference(answers[1]["content"][0]["text"])
            return "tools/call", {"name": "read_more", "arguments": {"reference": name, **place}}

        return request

    listed, got, page, found = asked(
        ("tools/list", {}),
        ("tools/call", {"name": "get1", "arguments": {}}),
        read({"line": 500, "lines": 10}),
        read({"find": "line 777 "}),
    )

    assert [one["name"] for one in listed["tools"]][-1] == "read_more"
    assert len(got["content"][0]["text"]) <= 1000
    assert page["content"][0]["text"].startswith("line 500 of the output\nline 501")
    assert "lines 500 to 509 of 1,000" in page["content"][0]["text"]
    assert found["content"][0]["text"].startswith("777: line 777 of")


def test_a_proxy_leaves_lists_unchanged(asked):
    listed, resources, text, got = asked(
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/read", {"uri": "file:///log"}),
        ("tools/call", {"name": "get1", "arguments": {}}),
    )

    assert len(listed["tools"]) == 51
    assert len(resources["resources"]) == 200
    assert len(text["contents"][0]["text"]) > 20_000
    assert got["content"][1] == {"type": "new", "data": [1] * 900}
    assert got["_meta"] == {"a": ["x"] * 900}


def test_a_replay_shows_the_changes(command, tmp_path):
    call = AssistantMessage(id="a", tool_calls=(ToolCall(id="c", name="get"),))
    response = ToolResponse(content=(TextPart(text=LINES),), structured={"items": [1] * 9000})
    result = ToolMessage(id="t", tool_call_id="c", tool_name="get", tool_response=response)
    lines = [HeaderLine(), SessionLine(id="s")]
    lines += [MessageLine(message=one) for one in (call, result)]
    lines += [EndLine(messages=2, records=0)]
    (tmp_path / "here" / "log.jsonl").write_bytes(b"".join([encode_line(one) for one in lines]))
    config = f'[[component]]\nuse = "{USE}"\nsettings = {{ characters = 1000 }}\n'
    (tmp_path / "here" / "toolbus.toml").write_text(config)

    run = command("replay", "log.jsonl", "--with", "toolbus.toml", "--json")

    assert run.returncode == 0, run.stderr
    assert "TruncateOutput" in run.stdout
    assert "[Shortened: " in run.stdout
    assert "[The structured value" in run.stdout


def test_invalid_settings_are_refused(tmp_path):
    wrong = [
        {"characters": 10},
        {"tokens": True},
        {"part_bytes": -1},
        {"megabytes": 0},
        {"head": 1.1},
        {"words": [""]},
        {"reader": "no name"},
    ]
    for settings in wrong:
        named = {"reader": "name"}.get(next(iter(settings)), next(iter(settings)))
        with pytest.raises(RegistrationError, match=named):
            TruncateOutput(**settings)

    file = tmp_path / "toolbus.toml"
    for setting, said in (
        ("tokens = 'x'", "'tokens'"),
        ("tokens = 1", "tokens must be 100 or more"),
        ("lines = 400", "'lines' was removed; give `characters` or `tokens`"),
        ("charcters = 900", "'characters'"),
        ("priority = 200", "unknown setting"),
    ):
        file.write_text(f'[[component]]\nuse = "{USE}"\nsettings = {{ {setting} }}\n')
        with pytest.raises(ConfigurationError, match=said):
            load_configuration(file)


@pytest.mark.full
async def test_huge_results_take_bounded_memory():
    size = 2_000_000
    texts = {
        "lines": "abc def\n" * (size // 8),
        "line": "x" * size,
        "marks": "\u0301" * size,
        "nested": "[" * (size // 2) + "]" * (size // 2),
        "tiny": "[" + ",".join(["1"] * (size // 2)) + "]",
        "empty": "[" + ",".join(["{}"] * (size // 3)) + "]",
        "escapes": '"' + "\\u0000" * (size // 6) + '"',
        "members": "{" + ",".join([f'"{n}":{{}}' for n in range(size // 12)]) + "}",
    }
    component = TruncateOutput(characters=5000, words=["nowhere", "def"])
    component.setup(Stage())

    for name, text in texts.items():
        whole = sys.getsizeof(text)
        tracemalloc.start()
        left = await shown(component, text)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(left.text) <= 5000, name
        # Of what is taken apart each value is an object of about a hundred bytes.
        assert peak < 40 * whole, (name, peak / whole)
