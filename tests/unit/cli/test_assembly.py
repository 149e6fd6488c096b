import pytest

from toolbus.cli.assembly import find_model, find_model_price
from toolbus.config.prices import Price
from toolbus.settings.usage_error import UsageError


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("input=2", "needs `input` and `output`"),
        ("input=2,output=nan", "expected a price"),
        ("input=-2,output=1", "expected a price"),
        ("input=x,output=1", "expected a number, not 'x'"),
        ("3", "expects input=NUMBER"),
        ("model=m,input=1,output=1", "expects input=NUMBER"),
        ("input=1,output=1,inptu=3", "did you mean 'input'?"),
        ("input=1,output=1,currency=", "expected letters"),
        ("input=1,output=1,currency=\x1b[2J", "expected letters"),
    ],
)
def test_a_price_that_is_none_is_refused(words, reason):
    with pytest.raises(UsageError, match="--price") as error:
        find_model_price(words, None, "m")

    assert reason in str(error.value)


def test_a_price_is_made_of_words():
    price = find_model_price("input=3, output=15.5,currency=EUR", None, "m")

    assert price == Price(input=3.0, output=15.5, currency="EUR")
    assert find_model_price(None, None, "m") is None


def test_an_address_gets_the_key_that_is_named(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k-of-the-provider")
    monkeypatch.setenv("OTHER_KEY", "k-of-another")

    bare = find_model("openai:m", "http://127.0.0.1:1/v1")
    named = find_model("openai:m", "http://127.0.0.1:1/v1", "OTHER_KEY")

    assert bare._server.key is None
    assert named._server.key.reveal() == "k-of-another"
    assert named._server.base_url == "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("name", "base_url", "key_env", "reason"),
    [
        ("replay:x.jsonl", "http://127.0.0.1:1", None, "a recording has no address"),
        ("replay:nowhere.jsonl", None, None, "nowhere.jsonl"),
        ("reply:x.jsonl", None, None, "did you mean 'replay'?"),
        ("openai:m", "127.0.0.1", None, "expected a URL"),
        ("openai:m", "http://127.0.0.1:1", "NO_SUCH_KEY", "set NO_SUCH_KEY"),
    ],
)
def test_a_model_that_cannot_be_asked_is_refused(name, base_url, key_env, reason):
    with pytest.raises(UsageError) as error:
        find_model(name, base_url, key_env)

    assert reason in str(error.value)
