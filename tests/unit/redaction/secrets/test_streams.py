"""Answers that are cleaned while they grow, and the same as the whole."""

import asyncio
import random
from base64 import b64encode

import pytest
from benchmarks.redaction.sets import everyday, formats, gone, lookalikes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.redaction.secrets.pattern_examples import match_of

from toolbus.bus.dispatch.details import AnswerWindow
from toolbus.components import State
from toolbus.messages import ReasoningPart
from toolbus.messages.records import AssistantMessage
from toolbus.redaction.placeholders import LETTERS
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.redaction.secrets.rules import Rule, choose
from toolbus.redaction.secrets.streams import (
    RecurringValues,
    RedactedAnswer,
    RedactedText,
    StreamContext,
    may_pass_line_ends,
)
from toolbus.store.memory import MemoryStore

RULES = choose((), (), {})
BEFORE = "Sure, here is what I found in the project, and what the first of the files has:\n\n"
AFTER = (
    "\n\nThat is all of it. Let me know whether you want me to look at the other files as well. "
)
PROSE = "Most of them have a default, so there is little to write. Then look at the log again. "
CASES = [
    *everyday(values=1),
    *everyday(reported=True, values=1),
    *formats(values=1),
    *lookalikes(values=1),
]
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
LABEL = "PRIVATE " + "KEY"
KEY = f"-----BEGIN {LABEL}-----\n{'abcdefgh' * 8}\n{'ijklmnop' * 8}\n-----END {LABEL}-----"


# What each of them reads gets the same placeholders.
STATE = State(MemoryStore(), "s", "kept")


def walk(text, visitor):
    (new,) = visitor.texts((text,))
    return new


class Session:
    """A session that knows *values*, one text of it that grows, and a clock that is set."""

    def __init__(self, values=(), *, held=False):
        self.redactor = RedactSecrets()._redactor
        self.registry = self.redactor.registries.of("s")
        for value in values:
            self.registry.placeholder(value, "known")
        self.examined, self.now = 0, 0.0

        async def clean(text, walk, stream):
            self.examined += len(text)
            return await self.redactor.clean("s", text, walk, lambda: STATE, stream=stream)

        engine = self.redactor._looking.engine
        self.context = StreamContext(
            "answers of s", self.registry, engine, clean, held, lambda: self.now
        )
        self.text = RedactedText(self.context, RecurringValues(self.registry))

    def grow(self, text):
        """Return what is released of *text*."""
        return asyncio.run(self.text.grow(text, ""))

    async def through(self, text, ends, ticks=()):
        """Return what becomes of *text*, known up to each of *ends*, *ticks* seconds apart."""
        shown = ""
        for number, end in enumerate(ends):
            self.now += ticks[number % len(ticks)] if ticks else 0
            longer = await self.text.grow(text[:end], "")
            assert longer.startswith(shown)
            shown = longer
        whole = await self.text.end(text, "")
        assert whole.startswith(shown)
        return whole

    def at_once(self, text):
        """Return what becomes of *text* as the result of a tool."""
        return asyncio.run(self.redactor.clean("s", text, walk, lambda: STATE))


def check(text, ends, ticks=(), values=()):
    """Check that *text* becomes the same, however it grows, as at once."""
    grown = asyncio.run(Session(values).through(text, sorted(ends), ticks))
    assert grown == Session(values).at_once(text)


def unnumbered(text):
    """Return *text* with the same letters in each placeholder."""
    return LETTERS.sub("-abcdef", text)


# --- lines ---------------------------------------------------------------------------------------


def test_a_line_is_released_at_its_end():
    session, line = Session(), PROSE + "And so on.\n"

    assert session.grow(line[:-1]) == ""
    assert session.grow(line + "Then") == line
    assert session.grow(line + "Then another, " + line[:-1]) == line
    assert session.grow(line + "Then another, " + line) == line + "Then another, " + line


def test_short_lines_are_released_together_or_in_time():
    session = Session()

    assert session.grow("One.\n") == ""
    session.now += 1.9
    assert session.grow("One.\nTwo.\n") == ""
    session.now += 0.1
    assert session.grow("One.\nTwo.\nThree") == "One.\nTwo.\n"


def test_an_open_block_is_held_up_to_its_end():
    session, text = Session(), BEFORE + KEY

    assert session.grow(text) == BEFORE
    session.now += 60
    assert session.grow(f"{text[:-9]}\n{PROSE}") == BEFORE
    # What is held long is tried seldom.
    shown = session.grow(f"{text[:-9]}\n{PROSE}KEY-----\n{PROSE * 3}\n")
    assert unnumbered(shown) == f"{BEFORE}[private-key-abcdef]\n{PROSE * 3}\n"


# --- no line end ---------------------------------------------------------------------------------


def test_text_without_a_line_end_is_released_after_two_seconds():
    session, text = Session(), PROSE * 8

    assert session.grow(text[:600]) == ""
    session.now += 1.9
    assert session.grow(text[:610]) == ""
    session.now += 0.1
    shown = session.grow(text[:614])
    assert 400 < len(shown) <= 614 - 96
    assert text.startswith(shown)
    assert shown.endswith(" ")
    # The next piece of it has two seconds again.
    session.now += 1.9
    assert session.grow(text[:680]) == shown


def test_text_without_a_line_end_is_released_after_many_characters():
    session, text = Session(), PROSE * 30

    assert session.grow(text[:1_999]) == ""
    shown = session.grow(text[:2_003])
    assert 1_600 < len(shown) <= 2_003 - 96
    assert text.startswith(shown)


@pytest.mark.parametrize(
    "said",
    [
        f"the token is {TOKEN} and no other, ",
        "my password is hunter2-Xk9! and nothing else, ",
        'password = "correct horse 7 battery staple, and very much so, as you know", ',
        "curl -u jane:xK9aaQ72bbz https:/" + "/api.example.com/v1 ",
        "log in with admin / Kd8-xQ2_pL0, ",
        "use Kd8-xQ2/pL0+zR7w as the password, ",
        '{"value": "xK9-aaQ72bbz", "type": "s", "name": "DB_PASSWORD"} ',
        "echo Kd8-xQ2/pL0+zR7w | sudo -S ls ",
        "correct horse 7 battery ",
        "requirepass Kd8-xQ2/pL0+zR7w and no directive ",
    ],
)
def test_a_cut_within_a_line_changes_nothing(said):
    text = PROSE * 20 + said + PROSE * 20
    begin = len(PROSE * 19)

    for start in range(begin, len(PROSE * 20 + said) + 300, 40):
        check(text, range(start, len(text), 60), (0.9,), ("correct horse 7 battery",))


def test_chinese_is_released_behind_its_signs():
    session, text = Session(), "先打开设置页面，然后按照说明逐步完成所有的配置工作。" * 100

    shown = session.grow(text)

    assert len(shown) > 1_500
    assert text.startswith(shown)
    assert shown[-1] in "。，"


@pytest.mark.parametrize("sign", ["", "\r", "\u2028", "\u0085", "\v"])
def test_what_has_neither_line_end_nor_blank_is_held(sign):
    text = f"abcdefgh{sign}" * 12_500
    session = Session()

    for end in range(1_000, len(text), 1_000):
        session.now += 3
        assert session.grow(text[:end]) == ""
    assert session.text.tries < 80
    assert asyncio.run(session.text.end(text, "")) == text


# --- the same as the whole -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", [pytest.param(29, id="some"), pytest.param(1, id="all", marks=pytest.mark.full)]
)
def test_whatever_rules_find_is_found_while_it_grows(step):
    rnd, count = random.Random(step), 0
    for rule in RULES[::step]:
        secret = match_of(rule.pattern, rnd)
        count += bool(secret)
        text = f"{BEFORE}{secret}{AFTER}"
        ends = range(len(BEFORE), len(text), 1 if step > 1 else 3)
        check(text, ends)
        check(text, ends, (rnd.random(),))

    assert count > 0.95 * len(RULES[::step])


@pytest.mark.parametrize(
    "step", [pytest.param(31, id="some"), pytest.param(1, id="all", marks=pytest.mark.full)]
)
def test_measured_texts_become_the_same(step):
    rnd = random.Random(step)
    for case in CASES[::step]:
        text = f"{BEFORE}{case.text}{AFTER}"
        check(text, range(len(BEFORE), len(text), 2))
        check(text, rnd.choices(range(len(text)), k=40), (rnd.random(), 3, 0))


LINE_ENDS = ("\n", "\n    ", "\r\n", "\r\n\t", "\n\n", "\\\n  ", "\\n  ")
CUTS = ("\u200b", "\xad", "\x1b[31m", "\x1b[3 q", " ", "\t", "\r", "\u2028", "\u3002", *LINE_ENDS)
BETWEEN = (
    " ",
    "\n",
    "\n\n",
    "\r\n",
    ", ",
    ". ",
    "\n- ",
    "\n    ",
    ": ",
    " = ",
    '"',
    "'",
    "\n```\n",
)
WORDS = [
    "the",
    "token",
    "is",
    "a",
    "password",
    "for",
    "api",
    "key",
    "user",
    "and",
    "x",
    "in",
    "log",
    "use",
    "it",
    "as",
    "of",
    "curl",
    "-u",
    "set",
]
VALUES = (
    "Kd8-xQ2/pL0+zR7w",
    "correct horse 7 battery",
    "a\\b\"c'd%e&f1<g>h",
    "one line 42\nand two\n",
    TOKEN,
    KEY,
)
CODE = (
    'def f(token: str = os.environ["TOKEN"]) -> dict:\n    return {"password": token}\n',
    "| user | password |\n|---|---|\n| jane | {value} |\n",
    '{"name": "DB_PASSWORD", "value": "{value}", "n": [1, 2]}',
    '{\n  "value": "{value}",\n  "type": "s",\n  "name": "DB_PASSWORD"\n}\n',
    "<password>\n  {value}\n</password>\n",
    "<input value='{value}'\n  name='password'>\n",
    "tokens = [\n  '{value}QQW3345kk'\n]\n",
    "curl -u jane:{value} -H 'Accept: */*' https:/" + "/api.example.com/v1?limit=10\n",
    "```yaml\nkind: Secret\ndata:\n  a: {encoded}\n```\n",
    "```yaml\ndata:\n  a: {encoded}\nkind: Secret\n```\n",
    "INSERT INTO users (name, password) VALUES ('a', '{value}'),\n ('b', '{value}y');\n",
    "password:\n  {value}\nuser: jane\n",
    "-----BEGIN PRIVATE " + "KEY-----\nabc\n",
)


@st.composite
def texts(draw):
    """Give a text of secrets, pieces of them and other forms, prose, JSON and code.

    But for the known values no secret is in it twice: one that stands alone, and later beside a
    name by which it is known, is taken out of a whole twice, and of what was released once.
    """
    pieces, taken = [], set()

    def new(most):
        number = draw(st.integers(0, most).filter(lambda number: (most, number) not in taken))
        taken.add((most, number))
        return number

    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["secret", "case", "code", "words", "value"]))
        if kind == "secret":
            rule = draw(st.sampled_from(RULES))
            piece = match_of(rule.pattern, random.Random(new(1 << 20)))
        elif kind == "value":
            piece = draw(st.sampled_from(VALUES))
        elif kind == "case":
            piece = CASES[new(len(CASES) - 1)].text
        elif kind == "code":
            value = f"xK9-{new(1 << 20):07x}Qz"
            encoded = b64encode(value.encode()).decode()
            piece = draw(st.sampled_from(CODE))
            piece = piece.replace("{value}", value).replace("{encoded}", encoded)
        else:
            piece = " ".join(draw(st.lists(st.sampled_from(WORDS), max_size=20)))
        at = draw(st.integers(0, len(piece)))
        form = draw(st.sampled_from(("as it is", "as it is", "cut", "end", "base64")))
        if form == "cut":
            piece = piece[:at] + draw(st.sampled_from(CUTS)) + piece[at:]
        elif form == "end":
            piece = piece[:at]
        elif form == "base64":
            piece = f" {b64encode(piece.encode()).decode()} "
        pieces += [piece, draw(st.sampled_from(BETWEEN))]
    return "".join(pieces)


@pytest.mark.parametrize(
    "examples", [pytest.param(25, id="some"), pytest.param(600, id="many", marks=pytest.mark.full)]
)
def test_released_text_is_the_beginning_of_the_whole(examples):
    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
    )
    @given(texts(), st.data())
    def law(text, data):
        ends = data.draw(st.lists(st.integers(0, len(text)), max_size=40))
        ticks = data.draw(st.lists(st.sampled_from([0, 0.5, 3]), max_size=3))
        check(text, ends, ticks, VALUES)

    law()


@pytest.mark.parametrize("value", VALUES)
def test_lines_that_break_in_a_known_value_are_held(value):
    for at in range(1, len(value), 1 if len(value) < 60 else 31):
        for line_end in LINE_ENDS:
            said = f"{BEFORE}It is {value[:at]}{line_end}{value[at:]} as I said.{AFTER}"
            check(said, range(len(BEFORE), len(said), 5), (), [value])


@pytest.mark.parametrize("line_end", ["\n", "\n    "])
def test_an_assumed_value_is_found_again_in_the_same_answer(line_end):
    value = "q7ZrT2mXw9LbV4kDs8Hf"
    text = (
        f'export DB_PASSWORD="{value}"\n{PROSE * 9}\nIt is {value}.\n'
        f"Or {value[:9]}{line_end}{value[9:]}, and so on.{AFTER}"
    )

    check(text, range(0, len(text), 4))

    assert value not in Session().at_once(text)


def test_secrets_of_measured_texts_are_gone():
    found = [
        one for one in CASES[::13] if one.secret and gone(one.secret, Session().at_once(one.text))
    ]

    assert len(found) > 5
    for case in found:
        ends = range(0, len(case.text), 4)
        assert gone(case.secret, asyncio.run(Session().through(case.text, ends)))


def test_a_value_that_is_known_later_is_cut_where_it_goes_on():
    session = Session()
    text = f"{BEFORE}It goes on:\n{PROSE}{TOKEN[:20]}\n"
    shown = session.grow(text)

    session.registry.placeholder(TOKEN, "known")
    whole = asyncio.run(session.text.end(f"{text}{TOKEN[20:]} as I said.\n", ""))

    assert shown == text
    assert whole == f"{text} as I said.\n"


# --- rules of a user -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "may"),
    [
        (r"TICKET-\d{6}", False),
        (r"\bacme_[A-Za-z0-9]{20,40}\b", False),
        (r"(?i)ticket no\. [0-9]+", False),
        (r"ticket\s+no", True),
        (r"begin\nend", True),
        (r"begin[^;]*;", True),
        (r"(?s)begin.*end", True),
        (r"(?is)begin.*end", True),
        (r"(?i:x)(?s:.)", True),
        (r"code [[:space:]]x", True),
        (r"x\x0ay", True),
        ("x\ny", True),
        (r"\D{3}", True),
        (r"secret \w+$", True),
    ],
)
def test_rules_that_may_pass_line_ends_are_known(pattern, may):
    assert may_pass_line_ends(Rule("own", pattern, foreign=True)) is may
    assert not may_pass_line_ends(Rule("published", pattern))


def test_a_rule_that_may_pass_line_ends_holds_all():
    session = Session(held=True)

    session.now += 60
    assert session.grow(f"{PROSE}\n" * 40) == ""
    assert RedactSecrets(rules={"own": r"a\sb"})._answers.held
    assert not RedactSecrets(rules={"own": r"a b"})._answers.held


# --- answers -------------------------------------------------------------------------------------


def window(text, released="", kind="text"):
    return AnswerWindow(text, kind=kind, released=released)


@pytest.mark.parametrize("first", [BEFORE, BEFORE[:60], f"{BEFORE[:60]}\n"])
def test_void_pieces_are_forgotten(first):
    async def run():
        answer = RedactedAnswer(Session().context)
        await answer.grow(window(first))
        again = await answer.grow(window(AFTER + BEFORE))
        return again, await answer.end(AssistantMessage(content=AFTER + BEFORE))

    again, whole = asyncio.run(run())

    assert again == whole.content == AFTER + BEFORE


def test_another_answer_than_the_one_said_is_cleaned_anew():
    async def run():
        answer = RedactedAnswer(Session().context)
        await answer.grow(window(BEFORE))
        return await answer.end(AssistantMessage(content=f"Another: {TOKEN}\n"))

    assert unnumbered(asyncio.run(run()).content) == "Another: [github-pat-abcdef]\n"


@pytest.mark.parametrize("is_streamed", [True, False])
def test_parts_of_reasoning_keep_their_texts(is_streamed):
    parts = [
        BEFORE,
        f"It is {TOKEN[:9]}",
        f"{TOKEN[9:]}.\nSo much for that, and all the rest.\n",
        "x",
    ]
    whole = "".join(parts)

    async def run():
        answer, shown = RedactedAnswer(Session().context), ""
        for end in range(0, len(whole) if is_streamed else 0, 5):
            shown = await answer.grow(window(whole[:end], shown, "reasoning"))
        reasoning = tuple([ReasoningPart(part, signature="seal") for part in parts])
        return shown, await answer.end(AssistantMessage(content="Fine.", reasoning=reasoning))

    shown, message = asyncio.run(run())

    cleaned = [unnumbered(part.text) for part in message.reasoning]
    assert "".join(cleaned).startswith(unnumbered(shown))
    assert "".join(cleaned) == whole.replace(TOKEN, "[github-pat-abcdef]")
    assert cleaned[3] == "x"
    assert message.reasoning[3].signature == "seal"


# --- costs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "begin",
    ["", f"-----BEGIN {LABEL}-----\n", "| user | password |\n|---|---|\n"],
    ids=["prose", "key", "table"],
)
def test_tries_and_characters_are_linear(begin):
    tries, examined = [], []
    for count in (8, 32):
        session, text = Session(), begin + "| jane | is one of them, who else would be? |\n" * count
        asyncio.run(session.through(text, range(0, len(text), 3)))
        tries.append(session.text.tries / count)
        examined.append(session.examined / len(text))

    assert tries[1] <= tries[0] + 1
    assert examined == [1, 1]
