import pytest

from toolbus import ToolSpec
from toolbus.redaction.secrets.engine import Engine
from toolbus.redaction.secrets.quoting import Unquoter
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import Rule

SUFFIX = "x7k2m5"


@pytest.mark.parametrize(
    ("texts", "clean"),
    [
        (("see [a-1-x7k2m5]!",), ("see [a-1-(quoted)]!",)),
        (("%5Ba-1-x7k2m5%5D _x7k2m5_",), ("%5Ba-1-(quoted)%5D _(quoted)_",)),
        (("ax7k2m5 x7k2m55 X7K2M5",), ("ax7k2m5 x7k2m55 X7K2M5",)),
        (("[a-1-x7", "k2", "", "m5] b"), ("[a-1-(quoted)", "", "", "] b")),
        (("x7k2m5", " x7k2m5"), ("(quoted)", " (quoted)")),
        (("[b-2-x7k2m5] [a-1-x7k2m5]",), ("[b-2-x7k2m5] [a-1-(quoted)]",)),
    ],
)
def test_a_suffix_goes_wherever_it_stands_by_itself(texts, clean):
    assert Unquoter(SUFFIX, ["[b-2-x7k2m5]"]).texts(texts) == clean
    assert Unquoter(SUFFIX, ["[b-2-x7k2m5]"]).texts(clean) == clean


def test_many_quotations_in_many_texts_take_no_square():
    texts = tuple([f"[a-1-{SUFFIX}]"] * 20_000)

    assert set(Unquoter(SUFFIX).texts(texts)) == {"[a-1-(quoted)]"}


def test_a_spec_quotes_nothing():
    redactor = Redactor(Engine((Rule("mark", "MARK-(a+)"),)), chars=1_000, seconds=600.0)
    suffix = redactor.registries.of("s").suffix
    schema = {"type": "object", "properties": {"key": {"default": f"[a-1-{suffix}]"}}}
    spec = ToolSpec(name="read", description=f"say [a-1-{suffix}]", input_schema=schema)
    plain = ToolSpec(name="read", description="say [a-1-abcdef]", input_schema={"type": "object"})

    clean = redactor.unquoted_spec("s", spec)

    assert clean.description == "say [a-1-(quoted)]"
    assert clean.input_schema["properties"]["key"]["default"] == "[a-1-(quoted)]"
    assert redactor.unquoted_spec("s", plain) is plain
