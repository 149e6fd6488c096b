"""The scenarios of `specs/redacted_answers.md`. Every credential is made while the tests run."""

import asyncio
import json
import logging
import random
import re
import string
import sys
from base64 import b64encode
from itertools import pairwise

import pytest
from benchmarks.redaction.sets import everyday, gone
from tests.servers import wire_shapes
from tests.servers.fake_provider import WIRES, FakeProvider
from tests.servers.providers import model_for

from toolbus import Agent, AssistantMessage, EventBus, ToolCall
from toolbus.events import MESSAGE_APPEND_AFTER, MODEL_CALL_DELTA, ModelDelta
from toolbus.messages import ReasoningPart, encode
from toolbus.models import ScriptedModel
from toolbus.redaction.placeholders import evened
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.store import MemoryStore, SqliteStore

VAULT = [{"tool": "use", "arguments": ["key"]}]
LETTERS = string.ascii_letters + string.digits


def drawn(count, seed=0, letters=LETTERS):
    """Return *count* letters, the same for the same *seed*."""
    return "".join(random.Random(seed).choices(letters, k=count))


TOKEN = "ghp_" + drawn(36)
PHRASE = "correct horse battery " + drawn(8, 1)
LABEL = "PRIVATE " + "KEY"
BODY = "\n".join(drawn(64, line) for line in range(6))
KEY = f"-----BEGIN {LABEL}-----\n{BODY}\n-----END {LABEL}-----"
PROSE = (
    "To deploy the service you begin with the settings, which are read when the server starts. "
    "Most of them have a default, so there is little to write. Then look at the log: it says what "
    "was read and where it came from, and in the end that all is well. If it does not, ask me. "
)
MIXED = f"""\
1. First install it, then set the variable: `export API_TOKEN={TOKEN}` and go on.

```json
{{"user": "jane", "password": "hunter-{drawn(10, 2)}", "retries": 3}}
```

| user | password | since |
|------|----------|-------|
| jane | {drawn(12, 3)} | 2021 |
| joe | {drawn(12, 4)} | 2022 |

That was all of it, and nothing else is needed to begin with.
"""


class Saying:
    """A model whose answers are pieces, each a kind and a text, and calls."""

    name = "saying"

    def __init__(self, *answers, before=None):
        self._answers, self._before = list(answers), before

    def _message(self, answer):
        pieces = [one for one in answer if not isinstance(one, ToolCall)]
        thought, said = [
            "".join([text for kind, text in pieces if kind == which])
            for which in ("reasoning", "text")
        ]
        reasoning = (ReasoningPart(thought),) if thought else ()
        calls = tuple([one for one in answer if isinstance(one, ToolCall)])
        return AssistantMessage(content=said, reasoning=reasoning, tool_calls=calls)

    async def complete(self, request):
        return self._message(self._answers.pop(0))

    async def stream(self, request):
        answer = self._answers.pop(0)
        for piece in answer:
            if self._before is not None:
                self._before()
            if isinstance(piece, ToolCall):
                arguments = encode(piece.arguments).decode()
                yield ModelDelta(kind="tool_call", text=arguments, name=piece.name, id=piece.id)
            else:
                yield ModelDelta(kind=piece[0], text=piece[1])
        yield self._message(answer)


def in_letters(text, kind="text"):
    return [(kind, letter) for letter in text]


def cut(text, size, kind="text"):
    return [(kind, text[start : start + size]) for start in range(0, len(text), size)]


def give() -> list[str]:
    """Give what nobody is to read."""
    return [f"token {TOKEN}", f'passphrase = "{PHRASE}"', KEY]


def use(key: str) -> str:
    """Use a key."""
    return "used"


def vaulted(*answers, before=None, **options):
    """Return an agent that has a vault, and says *answers*."""
    component = RedactSecrets(vault=VAULT, **options.pop("settings", {}))
    model = Saying(*answers, before=before)
    return Agent(model, tools=[give, use], components=[component], **options)


async def streamed(agent):
    """Return the texts of the pieces that *agent* gives, by kind, and how its run ends."""
    *pieces, result = [piece async for piece in agent.stream("go")]
    deltas = [piece for piece in pieces if isinstance(piece, ModelDelta)]
    kinds = {delta.kind for delta in deltas}
    return {kind: [one.text for one in deltas if one.kind == kind] for kind in kinds}, result


async def shown_by(*answers, **options):
    """Return what is shown of *answers*, by kind."""
    pieces, result = await streamed(vaulted(*answers, **options))
    assert result.status == "ok"
    return {kind: "".join(texts) for kind, texts in pieces.items()}


FOUND = (ToolCall(id="c0", name="give", arguments={}),)
"""An answer that has a tool give what is known from then on."""


# --- an answer is shown by line ------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "reasoning"])
async def test_prose_is_shown_line_by_line(kind):
    lines = PROSE.replace(". ", ".\n") * 4
    shown, behind, said = [], [], cut(lines, 5, kind)
    lengths = iter(range(len(said)))

    def note():
        text = lines[: 5 * next(lengths)]
        behind.append(len(text) - len("".join(shown)))

    agent = vaulted(said, before=note)
    agent.on(MODEL_CALL_DELTA, lambda ctx: shown.append(ctx.value.text))
    pieces, _ = await streamed(agent)

    longest = max(map(len, lines.splitlines()))
    assert "".join(pieces[kind]) == lines
    assert len(behind) == len(said)
    assert max(behind) <= 64 + longest
    assert all(piece.endswith("\n") for piece in pieces[kind])


CODE = """\
1. Install the dependencies, and look at what they need.
2. Run the program.

```python
import os
from dataclasses import dataclass

@dataclass
class Client:
    base_url: str
    token: str = os.environ["API_TOKEN"]

    def status(self) -> dict:
        response = get(f"{self.base_url}/status", headers={"Authorization": f"Bearer {self.token}"})
        response.raise_for_status()
        return response.json()
```

It prints {"state": "well", "items": [1, 2, 3], "next": null} if all is well.

| name | type | meaning |
|------|------|---------|
| limit | int | how many items there are |
| after | str | the key of the last item |

Let me know if you would like me to write tests for the client as well.
"""


async def test_code_and_tables_are_shown_in_pieces():
    pieces, result = await streamed(vaulted(cut(CODE, 4)))

    assert "".join(pieces["text"]) == result.text == CODE
    assert len(pieces["text"]) > 6


@pytest.mark.parametrize("line", [PROSE, "先打开设置页面，然后按照说明逐步完成所有的配置工作。"])  # noqa: RUF001
async def test_a_long_line_is_shown_in_pieces(line):
    said = (line * 400)[:9_000]

    pieces, result = await streamed(vaulted(cut(said, 3)))

    assert "".join(pieces["text"]) == result.text == said
    assert len(pieces["text"]) >= 5
    assert max(map(len, pieces["text"])) <= 2_400


async def test_an_unfinished_key_is_held():
    before, unfinished = PROSE + "\n", KEY[: KEY.index("-----END")]
    after = PROSE.replace(". ", ".\n") * 4
    open_pieces, _ = await streamed(vaulted(cut(before + unfinished + after, 5)))
    pieces, result = await streamed(vaulted(cut(f"{before}{KEY}\n{after}", 5)))

    *early, last = open_pieces["text"]
    assert "-----BEGIN" not in "".join(early)
    assert BODY in last
    assert evened(result.text) == f"{before}[private-key-1]\n{after}"
    assert BODY[:20] not in "".join(pieces["text"])
    placed = [index for index, text in enumerate(pieces["text"]) if "[private-key" in text]
    assert len(pieces["text"]) - placed[0] > 3


async def test_arguments_wait_for_the_whole_answer():
    call = ToolCall(id="c1", name="use", arguments={"key": TOKEN})
    agent = vaulted([*cut(PROSE.replace(". ", ".\n"), 5), call], [("text", "done")])

    pieces, _ = await streamed(agent)

    assert len(pieces["text"]) > 3
    assert evened("".join(pieces["tool_call"])) == '{"key":"[github-pat-1]"}'


@pytest.mark.parametrize("pattern", [r"begin\s(\w+)", r"begin[^;]+;", "(?s)begin(.*)end"])
async def test_a_rule_over_lines_holds_all(pattern):
    said = f"{PROSE}\n{PROSE}\nbegin\nq7ZrT2mX; end\n"
    agent = vaulted(cut(said, 5), settings={"rules": {"own": pattern}})

    pieces, result = await streamed(agent)

    assert pieces["text"] == [result.text]
    assert "q7ZrT2mX" not in result.text


# --- no piece shows a secret ---------------------------------------------------------------------


async def traces_of(tmp_path, caplog, *answers):
    """Return all that can be read of runs in which a model that knows `give` says *answers*."""
    caplog.set_level(logging.DEBUG)
    seen = []
    async with SqliteStore(tmp_path / "store.db") as store:
        agent = vaulted(FOUND, [("text", "found")], *answers, store=store)
        agent.on(MODEL_CALL_DELTA, lambda ctx: seen.append(repr(ctx.value)))
        agent.on(MESSAGE_APPEND_AFTER, lambda ctx: seen.append(repr(ctx.value)))
        agent.bus.tap(lambda record: seen.append(repr(record)))
        agent.bus.tap(
            lambda record: (
                seen.append(repr(record)) if record.event == MODEL_CALL_DELTA.name else None
            ),
            values=True,
        )
        await agent.run("go")
        await use_phrase(agent)
        seen.clear()
        for _ in answers:
            seen += map(repr, [piece async for piece in agent.stream("go on")])
        seen.append(encode(list(agent.messages)).decode())
        seen += [repr(record) for record in agent.ledger]
        await agent.aclose()
    seen += [repr(file.read_bytes()) for file in tmp_path.iterdir()]
    return "\n".join([*seen, caplog.text])


async def use_phrase(agent):
    """Have the vault of *agent* give out the passphrase, so that it is known wherever it stands."""
    text = encode(list(agent.messages)).decode()
    start = text.index("[assigned-secret-")
    placeholder = text[start : text.index("]", start) + 1]
    outcome = await agent.call_tool("use", {"key": placeholder})
    assert not outcome.response.is_error


@pytest.mark.parametrize("secret", [TOKEN, PHRASE, KEY], ids=["token", "phrase", "key"])
async def test_known_values_never_come_out(tmp_path, caplog, secret):
    before, after = "It is known that ", " was what the tool gave. That is all. "
    whole = before + secret + after
    start, stop = len(before), len(before) + len(secret)
    places = range(start, stop + 1, 1 if len(secret) < 60 else 16)
    answers = [in_letters(whole), *([("text", whole[:at]), ("text", whole[at:])] for at in places)]

    traces = await traces_of(tmp_path, caplog, *answers)

    assert len(answers) > 25
    assert secret not in traces
    # As it stands in JSON and in what Python shows of a text.
    assert not [line for line in secret.splitlines() if "-----" not in line and line in traces]


def everyday_cases():
    return [*everyday(values=1), *everyday(reported=True, values=1)]


@pytest.mark.full
async def test_common_contexts_never_show_a_secret():
    cases, shown, cleaned = everyday_cases(), 0, 0
    for case in cases:
        text = f"{PROSE}\n\n{case.text}\n\n{PROSE}"
        said = (await shown_by(in_letters(text)))["text"]
        result = await cleaned_result(text)
        cleaned += gone(case.secret, result)
        shown += gone(case.secret, result) and not gone(case.secret, said)
        assert evened(said) == evened(result), case.name

    assert (shown, cleaned > 150) == (0, True)


async def cleaned_result(text):
    """Return *text* as the result of a tool, clean."""

    def read() -> str:
        """Read it."""
        return text

    component = RedactSecrets()
    async with Agent(ScriptedModel([]), tools=[read], components=[component]) as agent:
        return (await agent.call_tool("read")).response.text


TRICKS = {
    "no width": TOKEN[:9] + "\u200b" + TOKEN[9:20] + "\xad" + TOKEN[20:],
    "colours": TOKEN[:9] + "\x1b[31m" + TOKEN[9:20] + "\x1b[3 q" + TOKEN[20:],
    "line break": TOKEN[:9] + "\n  " + TOKEN[9:],
    "shell": TOKEN[:9] + "\\\n  " + TOKEN[9:],
    "base64": b64encode(f"it is {TOKEN}, yes".encode()).decode(),
    "binary base64": b64encode(b"\xff" + TOKEN.encode()).decode(),
    "hexadecimal": TOKEN.encode().hex(),
    "link": "".join([f"%{byte:02x}" for byte in TOKEN.encode()]),
}


def bare(text):
    """Return *text* without what stands between the letters of a trick."""
    for cut_in in ("\u200b", "\xad", "\x1b[31m", "\x1b[3 q", "\\\n", "\n", " "):
        text = text.replace(cut_in, "")
    return text


@pytest.mark.parametrize("trick", TRICKS)
async def test_tricks_in_answers_reveal_nothing(trick):
    said = f"Well, look at this: {TRICKS[trick]} and go on as before. "
    thought = iter(in_letters(PROSE, "reasoning"))
    mixed = [piece for letter in in_letters(said) for piece in (letter, next(thought))]

    for answer in (in_letters(said), mixed, in_letters(said, "reasoning")):
        agent = vaulted(FOUND, [("text", "found")], answer)
        await agent.run("go")
        pieces, result = await streamed(agent)
        shown = ["".join(texts) for texts in pieces.values()]
        assert result.status == "ok"
        assert all(gone(bare(TRICKS[trick]), bare(text)) for text in shown)
        assert any("go on as before. " in text for text in shown)


async def test_the_rest_of_a_secret_is_cut():
    first, rest = f"It is {TOKEN[:20]}", f"{TOKEN[20:]} as I said, and nothing else. "

    agent = vaulted(
        FOUND,
        [("text", "found")],
        [*in_letters(first, "reasoning"), *in_letters(rest)],
        in_letters(first),
        in_letters(rest),
    )
    await agent.run("go")
    runs = [await streamed(agent) for _ in range(3)]

    for pieces, result in (runs[0], runs[2]):
        assert "".join(pieces["text"]) == result.text == " as I said, and nothing else. "


async def test_a_repeated_value_is_replaced_again():
    value = drawn(24, 7)
    said = f'export DB_PASSWORD="{value}"\n{PROSE}\n{PROSE}\nLog in with it: {value}.\n'

    pieces, result = await streamed(vaulted(cut(said, 5)))

    assert len(pieces["text"]) > 2
    assert value not in result.text
    assert evened(result.text).count("[assigned-secret-1]") == 2


# --- streamed or not is the same -----------------------------------------------------------------


async def said_by(answer, *, whole=False):
    """Return the reasoning and the text that become of *answer*, and what was shown of them."""
    agent = vaulted(answer)
    if whole:
        await agent.run("go")
        pieces = None
    else:
        pieces, result = await streamed(agent)
        assert result.status == "ok"
    message = agent.messages[-1]
    assert message.role == "assistant"
    texts = evened(message.reasoning_text), evened(message.content)
    if pieces is not None:
        assert evened("".join(pieces["reasoning"])) == texts[0]
        assert evened("".join(pieces["text"])) == texts[1]
    return texts


@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.full)])
async def test_every_split_gives_the_same_answer(step):
    thought = f"The token is {TOKEN}, so the password must be another one. I think that is all. "
    expected = await said_by([("reasoning", thought), ("text", MIXED)], whole=True)
    letters = await said_by([*in_letters(thought, "reasoning"), *in_letters(MIXED)])

    assert letters == expected
    assert expected[1].count("[assigned-secret-") == 3
    assert "[github-pat-1]" in expected[0]
    assert "[github-pat-1]" in expected[1]
    for at in range(1, len(MIXED), step):
        halves = [("text", MIXED[:at]), ("text", MIXED[at:])]
        assert await said_by([("reasoning", thought), *halves]) == expected


@pytest.mark.parametrize("path", WIRES)
@pytest.mark.parametrize("seed", range(3))
async def test_every_wire_shows_the_same(path, seed, monkeypatch):
    rnd = random.Random(seed)

    def pieces_of(text):
        ends = sorted({*rnd.choices(range(1, len(text) + 1), k=len(text) // 6), len(text)})
        return [text[start:end] for start, end in pairwise([0, *ends])] if text else []

    monkeypatch.setattr(wire_shapes, "cut", pieces_of)
    thought = f"It is {TOKEN}, or\n{KEY}\nSo the password is another one, I think.\n"
    arguments = json.dumps({"key": f"{TOKEN}\n{KEY}"})
    said = f"{MIXED}{KEY}\n{PROSE}\nAnd again {TOKEN[:12]}\n  {TOKEN[12:]}.\n{MIXED}"
    answer = [("reasoning", thought, "seal"), ("text", said), ("call", "c1", "use", arguments)]
    last = [("text", f"It was {TOKEN}.")]
    messages = []
    async with (
        FakeProvider([answer, last] * 2, chunk=rnd.randint(1, 40)) as server,
        model_for(path, server) as model,
    ):
        for is_streamed in (False, True):
            component = RedactSecrets(vault=VAULT)
            agent = Agent(model, tools=[use], components=[component])
            if is_streamed:
                pieces, result = await streamed(agent)
            else:
                result = await agent.run("go")
            assert result.status == "ok"
            messages.append([encode(one).decode() for one in agent.messages[1:]])
            asking, _, answered = agent.messages[1:]

    whole, grown = [[unnumbered(text) for text in texts] for texts in messages]
    assert whole == grown
    assert not [text for text in grown if TOKEN in text or BODY[:64] in text]
    assert "".join(pieces["text"]) == asking.text + answered.text
    assert "".join(pieces["reasoning"]) == asking.reasoning_text
    assert json.loads("".join(pieces["tool_call"])) == asking.tool_calls[0].arguments


def unnumbered(text):
    """Return *text* without ids, and without the letters of placeholders."""
    text = re.sub(r'"(id|tool_call_id|duration_ns)":("[^"]*"|\d+)', "", text)
    return re.sub(r"-[a-z][a-z2-7]{15}\]", "]", text)


async def test_a_late_name_recalls_nothing():
    value = drawn(32, 5, "0123456789abcdef")
    first = f"The value was {value} at first.\n{PROSE}\n"
    said = f"{first}Use adafruit_key = {value} from here on.\n{PROSE}"

    for answer, whole in ((in_letters(said), False), ([("text", said)], True)):
        store = MemoryStore()
        agent = vaulted(answer, store=store)
        if whole:
            result = await agent.run("go")
        else:
            pieces, result = await streamed(agent)
            assert "".join(pieces["text"]) == result.text
        assert result.status == "ok"
        assert result.text.count(value) == (0 if whole else 1)
        assert "adafruit_key = [adafruit-api-key-" in result.text
        stored = encode(list(await store.read(agent.scope.session_id))).decode()
        assert value not in stored


async def test_many_streams_share_one_bus():
    bus = EventBus()
    prose = PROSE.replace(". ", ".\n")
    texts = [f"Number {number}: {'ghp_' + drawn(36, number)}\n{prose}" for number in range(40)]
    agents = [vaulted(cut(text, 7), bus=bus) for text in texts]

    runs = await asyncio.gather(*map(streamed, agents))

    for number, (pieces, result) in enumerate(runs):
        assert evened(result.text) == f"Number {number}: [github-pat-1]\n{prose}"
        assert "".join(pieces["text"]) == result.text
        assert len(pieces["text"]) > 2


async def test_a_failing_scan_refuses_the_whole_answer():
    agent = vaulted(cut(PROSE, 5), settings={"max_seconds": 1e-9})

    pieces, result = await streamed(agent)

    assert pieces == {}
    assert result.status == "denied"
    assert "secrets" in result.reason


# --- a long answer costs no more each ------------------------------------------------------------


async def calls_for(text):
    """Return how many functions of ours are called to stream *text*."""
    agent, called = vaulted(cut(text, 4)), 0

    def profile(frame, event, _):
        nonlocal called
        called += event == "call" and "redaction" in frame.f_code.co_filename

    sys.setprofile(profile)
    try:
        await streamed(agent)
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize("begin", ["", KEY[: KEY.index("-----END")] + "\n"], ids=["prose", "key"])
@pytest.mark.parametrize("end", ["\n", " "], ids=["lines", "line"])
async def test_characters_are_scanned_once(begin, end):
    prose = PROSE.replace(". ", f".{end}")
    await calls_for(prose)
    few, many = [await calls_for(begin + prose * (size // len(prose))) for size in (5_000, 20_000)]

    assert many <= 5 * few
