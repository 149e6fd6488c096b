"""What a verdict says of a call is short, and no part of a secret stands in it."""

from toolbus.policy.rules.values import excerpt
from toolbus.policy.rules.verdict_texts import one_line

TOKEN = "ghp_" + "a8Kq2Lw9Zx7Vb4Nm6Rt1" * 2


def parts_of_token(text):
    return text.count(TOKEN[:5]) - text.count(TOKEN)


def test_a_secret_is_there_or_not():
    texts = []
    for size in range(320):
        texts.append(one_line(f"git push {'x' * size} {TOKEN} now"))
        texts.append(excerpt({"x" * size: TOKEN}))

    assert not any(map(parts_of_token, texts))
    assert max(map(len, texts)) == 300
    assert {TOKEN in text for text in texts} == {True, False}


def test_one_long_word_is_left_out():
    assert one_line(f"echo {TOKEN * 9}") == "echo…"
    assert excerpt(TOKEN * 9) == "…"
