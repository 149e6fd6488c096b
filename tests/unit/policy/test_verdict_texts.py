"""What a verdict says of a call is short, and no part of a secret stands in it."""

from toolbus.policy.rules.values import shown
from toolbus.policy.rules.verdict_texts import shortened

TOKEN = "ghp_" + "a8Kq2Lw9Zx7Vb4Nm6Rt1" * 2


def parts_of_token(text):
    return text.count(TOKEN[:5]) - text.count(TOKEN)


def test_a_secret_is_there_or_not():
    texts = []
    for size in range(320):
        texts.append(shortened(f"git push {'x' * size} {TOKEN} now"))
        texts.append(shown({"x" * size: TOKEN}))

    assert not any(map(parts_of_token, texts))
    assert max(map(len, texts)) == 300
    assert {TOKEN in text for text in texts} == {True, False}


def test_one_long_word_is_left_out():
    assert shortened(f"echo {TOKEN * 9}") == "echo…"
    assert shown(TOKEN * 9) == "…"
