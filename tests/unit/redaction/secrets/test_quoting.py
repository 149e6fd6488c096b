import pytest

from toolbus import ToolSpec
from toolbus.redaction.live_placeholders import FormerPlaceholders
from toolbus.redaction.placeholders import SessionPlaceholders
from toolbus.redaction.secrets.engine import Engine
from toolbus.redaction.secrets.redactor import Redactor, Unquoter
from toolbus.redaction.secrets.rules import Rule

KEY = bytes(32)
OWN = SessionPlaceholders("s")
OWN.begin(None, KEY)
A, B = OWN.of("a", "a long value"), OWN.of("b", "a long value")
L = A[3:-1]
FORMER = FormerPlaceholders({"numbers": {"a": 3}, "suffix": "x7k2m5"}, lambda: None)


@pytest.mark.parametrize(
    ("texts", "clean"),
    [
        ((f"see {A}!",), ("see [a-(quoted)]!",)),
        ((f"%5Ba-{L}%5D -{L}_",), ("%5Ba-(quoted)%5D -(quoted)_",)),
        ((f"-{L}a {L.upper()} -{L[:-1]}",), (f"-{L}a {L.upper()} -{L[:-1]}",)),
        ((f"[a-{L[:4]}", L[4:6], "", f"{L[6:]}] b"), ("[a-(quoted)", "", "", "] b")),
        ((f"-{L}", f" -{L}"), ("-(quoted)", " -(quoted)")),
        ((f"{B} {A}",), (f"{B} [a-(quoted)]",)),
        (("[a-1-x7k2m5] x7k2m5 ax7k2m5",), ("[a-1-(quoted)] (quoted) ax7k2m5",)),
    ],
)
def test_letters_go_wherever_they_stand_by_themselves(texts, clean):
    assert Unquoter(OWN, FORMER, [B]).texts(texts) == clean
    assert Unquoter(OWN, FORMER, [B]).texts(clean) == clean


def test_placeholders_of_other_sessions_stay():
    foreign = SessionPlaceholders("t").of("a", "a long value")

    assert Unquoter(OWN).texts((foreign, "[a-1-x7k2m5]")) == (foreign, "[a-1-x7k2m5]")


def test_many_quotations_in_many_texts_take_no_square():
    texts = tuple([A] * 20_000)

    assert set(Unquoter(OWN).texts(texts)) == {"[a-(quoted)]"}


async def test_a_spec_quotes_nothing():
    redactor = Redactor(Engine((Rule("mark", "MARK-(a+)"),)), chars=1_000, seconds=600.0)
    redactor.key = KEY
    schema = {"type": "object", "properties": {"key": {"default": A}}}
    spec = ToolSpec(name="read", description=f"say {A}", input_schema=schema)
    plain = ToolSpec(name="read", description="say [a-aaaaaaaaaaaaaaaa]", input_schema={"a": "b"})

    clean = await redactor.unquoted_spec("s", spec, None)

    assert clean.description == "say [a-(quoted)]"
    assert clean.input_schema["properties"]["key"]["default"] == "[a-(quoted)]"
    assert await redactor.unquoted_spec("s", plain, None) is plain
