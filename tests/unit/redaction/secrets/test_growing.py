"""Texts that are cleaned while they grow, and the same in the end."""

import asyncio
import random
from base64 import b64encode

import pytest
from benchmarks.redaction.sets import everyday, formats, gone, lookalikes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.redaction.secrets.test_prefixes import example

from toolbus.components import State
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.redaction.secrets.boundaries import boundaries_of
from toolbus.redaction.secrets.expressions import compiled
from toolbus.redaction.secrets.growing import AnswerContext, GrowingText
from toolbus.redaction.secrets.prefixes import shape_of
from toolbus.redaction.secrets.rules import choose
from toolbus.store.memory import MemoryStore

RULES = choose((), (), {})
BEFORE = "Sure, here is what I found in the project, and what the first of the files has:\n\n"
AFTER = (
    "\n\nThat is all of it. Let me know whether you want me to look at the other files as well. "
)
CASES = [*everyday(values=1), *formats(values=1), *lookalikes(values=1)]


def walk(text, visitor):
    (new,) = visitor.texts((text,))
    return new


# What each of them reads gets the same placeholders.
STATE = State(MemoryStore(), "s", "kept")


class Growth:
    """A session that knows *values*, and one text of it."""

    def __init__(self, values=()):
        self.redactor = RedactSecrets()._redactor
        registry = self.redactor.registries.of("s")
        for value in values:
            registry.placeholder(value, "known")
        self.examined = 0

        async def clean(text, walk, stream):
            self.examined += len(text)
            return await self.redactor.clean("s", text, walk, STATE, stream=stream)

        self.text = GrowingText(
            AnswerContext("answers of s", registry, boundaries_of(RULES), clean)
        )

    async def through(self, text, ends=()):
        """Return what becomes of *text*, which is known up to each of *ends* first."""
        shown = ""
        for end in ends:
            longer = await self.text.grow(text[:end], "")
            assert longer.startswith(shown)
            shown = longer
        whole = await self.text.end(text, "")
        assert whole.startswith(shown)
        return whole

    def at_once(self, text):
        """Return what becomes of *text* as the result of a tool."""
        return asyncio.run(self.redactor.clean("s", text, walk, STATE))


def check(text, ends, values=()):
    """Check that *text* becomes the same, however it grows, and as the result of a tool."""
    growth = Growth(values)
    grown = asyncio.run(growth.through(text, sorted(ends)))
    assert grown == asyncio.run(Growth(values).through(text))
    # Of what a name made known later the stored copy is clean.
    assert growth.at_once(grown) == Growth(values).at_once(text)


def drawn_from(rule, rnd):
    """Return a text that *rule* matches, or an empty one."""
    expression, shape = compiled(rule.pattern), shape_of(rule.pattern)
    texts = (example(shape, rnd) for _ in range(20))
    return next((text for text in texts if expression.search(text.encode())), "")


@pytest.mark.parametrize(
    "step", [pytest.param(29, id="some"), pytest.param(1, id="all", marks=pytest.mark.full)]
)
def test_whatever_rules_find_is_found_while_it_grows(step):
    rnd, count = random.Random(step), 0
    for rule in RULES[::step]:
        secret = drawn_from(rule, rnd)
        count += bool(secret)
        text = f"{BEFORE}{secret}{AFTER}"
        check(text, range(len(BEFORE), len(text), 1 if step > 1 else 3))

    assert count > 0.95 * len(RULES[::step])


@pytest.mark.parametrize(
    "step", [pytest.param(31, id="some"), pytest.param(1, id="all", marks=pytest.mark.full)]
)
def test_measured_texts_become_the_same(step):
    for case in CASES[::step]:
        text = f"{BEFORE}{case.text}{AFTER}"
        check(text, range(len(BEFORE), len(text), 2))


CUTS = (
    "\u200b",
    "\xad",
    "\x1b[31m",
    "\x1b[3 q",
    "\\\n  ",
    "\\n  ",
    "\n",
    "\n    ",
    " ",
    "\t",
    "\u3002",
)
BETWEEN = (" ", "\n", "\n\n", ", ", ". ", "\n- ", "\n    ", ": ", " = ", '"', "")
PROSE = "the token is a password for api key user and x in log use it as of curl -u set name"
WORDS = PROSE.split()
VALUES = (
    "Kd8-xQ2/pL0+zR7w",
    "correct horse 7 battery",
    "a\\b\"c'd%e&f1<g>h",
    "one line 42\nand two\n",
)
CODE = (
    'def f(token: str = os.environ["TOKEN"]) -> dict:\n    return {"password": token}\n',
    "| user | password |\n|---|---|\n| jane | xK9-aaQ72bbz |\n",
    '{"name": "DB_PASSWORD", "value": "xK9-aaQ72bbz", "n": [1, 2]}',
    "curl -u jane:xK9aaQ72bbz -H 'Accept: */*' https:/" + "/api.example.com/v1?limit=10\n",
    "```yaml\nkind: Secret\ndata:\n  a: eEs5LWFhUTcyYmJ6Cg==\n```\n",
    "INSERT INTO users (name, password) VALUES ('a', 'xK9-aaQ72bbz'),\n ('b', 'yK9-aaQ72bbz');\n",
)


@st.composite
def texts(draw):
    """Give a text of secrets, pieces of them and other forms, prose, JSON and code."""
    pieces = []
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["secret", "case", "code", "words", "value"]))
        if kind == "secret":
            rule = draw(st.sampled_from(RULES))
            piece = drawn_from(rule, random.Random(draw(st.integers(0, 99))))
        elif kind == "value":
            piece = draw(st.sampled_from(VALUES))
        elif kind == "case":
            piece = draw(st.sampled_from(CASES)).text
        elif kind == "code":
            piece = draw(st.sampled_from(CODE))
        else:
            piece = " ".join(draw(st.lists(st.sampled_from(WORDS), max_size=20)))
        at = draw(st.integers(0, len(piece)))
        form = draw(st.sampled_from(("as it is", "as it is", "cut", "end", "base64")))
        if form == "cut":
            piece = piece[:at] + draw(st.sampled_from(CUTS)) + piece[at:]
        elif form == "end":
            piece = piece[:at]
        elif form == "base64":
            # With a known value right before it, what is left of it may differ: no secret in both.
            piece = f" {b64encode(piece.encode()).decode()} "
        pieces += [piece, draw(st.sampled_from(BETWEEN))]
    return "".join(pieces)


def test_released_text_is_the_beginning_of_the_whole():
    @settings(
        max_examples=15,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        # The same texts each time: a secret that is replaced may have held a table's or a value's
        # surroundings together, and what is only assumed is then found in one of the two.
        derandomize=True,
    )
    @given(texts(), st.data())
    def law(text, data):
        ends = data.draw(st.lists(st.integers(0, len(text)), max_size=12))
        check(text, ends, VALUES)

    law()


@pytest.mark.parametrize("begin", ["", "-----BEGIN PRIVATE " + "KEY-----\n"], ids=["prose", "key"])
def test_looks_and_letters_are_linear(begin):
    looks, examined = [], []
    for count in (4, 16):
        growth, text = Growth(), begin + f"{BEFORE}{AFTER}\n" * count
        asyncio.run(growth.through(text, range(0, len(text), 3)))
        looks.append(growth.text.looks / count)
        examined.append(growth.examined / len(text))

    assert looks[1] <= looks[0] + 1
    assert examined == [1, 1]


def test_secrets_of_measured_texts_are_gone():
    found = [
        one for one in CASES[::13] if one.secret and gone(one.secret, Growth().at_once(one.text))
    ]

    assert len(found) > 5
    for case in found:
        assert gone(case.secret, asyncio.run(Growth().through(case.text)))


def test_another_text_than_the_one_said_is_cleaned_anew():
    growth = Growth()

    async def run():
        await growth.text.grow(BEFORE + AFTER, "")
        assert growth.text.begins(BEFORE + AFTER + "more")
        assert not growth.text.begins("another")

    asyncio.run(run())
