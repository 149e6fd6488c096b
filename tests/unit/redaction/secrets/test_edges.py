"""Formats that are published, with random values, beside all that stands beside them in texts."""

import asyncio
import string
from base64 import urlsafe_b64encode
from random import Random

import pytest
from benchmarks.redaction.freeing import AFTER, AFTER_VALUE, BEFORE, after

from toolbus.messages.record_walker import rewrite_response
from toolbus.messages.records import ToolResponse
from toolbus.redaction.secrets.engine import Engine, engine_for
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import Rule, choose

RANDOM = Random("edges")
ALL, HEX, DIGITS, CAPITALS = (
    string.ascii_letters + string.digits,
    "0123456789abcdef",
    string.digits,
    string.ascii_uppercase,
)
URL = ALL + "_-"


def some(count, letters=ALL):
    return "".join([RANDOM.choice(letters) for _ in range(count)])


def segment(text):
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


FORMATS = {
    "GitHub": lambda: "ghp_" + some(36),
    "GitHub, fine-grained": lambda: "github_pat_" + some(22) + "_" + some(59),
    "GitLab": lambda: "glpat-" + some(20, URL),
    "AWS": lambda: "AKIA" + some(16, CAPITALS + "234567"),
    "Anthropic": lambda: "sk-ant-api03-" + some(93, URL) + "AA",
    "OpenAI": lambda: "sk-proj-" + some(74, URL) + "T3BlbkFJ" + some(74, URL),
    "Google": lambda: "AIza" + some(35, URL),
    "Google, client": lambda: "GOCSPX-" + some(28, URL),
    "Google, access": lambda: "ya29." + some(120, URL),
    "Hugging Face": lambda: "hf_" + some(34, string.ascii_letters),
    "JWT": lambda: ".".join(
        [segment('{"alg":"HS256","typ":"JWT"}'), segment(f'{{"sub":"{some(12)}"}}'), some(43, URL)]
    ),
    "Databricks": lambda: "dapi" + some(32, HEX),
    "Vault": lambda: "hvs." + some(95, URL),
    "Grafana": lambda: "glsa_" + some(32) + "_" + some(8, HEX),
    "Docker": lambda: "dckr_pat_" + some(27, URL),
    "Stripe": lambda: "sk_live_" + some(24),
    "Telegram": lambda: some(10, "123456789") + ":A" + some(34, URL),
    "Slack": lambda: f"xoxb-{some(12, DIGITS)}-{some(12, DIGITS)}-{some(24)}",
    "npm": lambda: "npm_" + some(36),
    "PyPI": lambda: "pypi-AgEIcHlwaS5vcmc" + some(150, URL),
    "SendGrid": lambda: "SG." + some(22, URL) + "." + some(43, URL),
    "DigitalOcean": lambda: "dop_v1_" + some(64, HEX),
    "Azure": lambda: some(3) + "8Q~" + some(34),
    "New Relic": lambda: "NRAK-" + some(27, CAPITALS + DIGITS),
    "Discord": lambda: "M" + some(25) + "." + some(6, URL) + "." + some(38, URL),
    "Heroku": lambda: "HRKU-AA" + some(58, URL),
}
BESIDE = [
    *("{}", "my key is {}, keep it", "the key: {}.", "it is {}. Next", "is it {}?", "it is {}!"),
    *("({})", "[{}]", "{{{}}}", "<t>{}</t>", ">{}<", "'{}'", '"{}"', "`{}`", "**{}**", "_{}_"),
    *("~{}~", "|{}|", "#{}#", "?k={}&x=1", "{}:", "{};", "@{}@", "${}$", "^{}^", "/{}/", "-{}-"),
    *(
        "…{}…",
        "“{}”",
        "\u00a0{}\u00a0",
        "密钥{}是",
        "、{}。",
        "&quot;{}&quot;",
        "\t{}\t",
        "- {}\r\n",
    ),
    *("%22{}%22", "%20{}%20", "%3D{}%26", "=3D{}=", "={}%0A", "x\\n{}\\nline", "x\\t{}\\t"),
    *("\\u003e{}\\u003c", "\\u0022{}\\u0022", '\\"{}\\"', "\\/{}\\/", "x: {}\\\\n", "\\x1b[1m{}"),
    *("\x1b[32m{}\x1b[0m", "\\x1b[32m{}\\x1b[0m", "[32m{}[0m", "\u200b{}\u200b", "\ufeff{}"),
]


def cleaned(text):
    redactor = Redactor(engine_for(choose((), (), {})), chars=1_000_000, seconds=600.0)
    return asyncio.run(redactor.clean("s", ToolResponse.from_text(text), rewrite_response)).text


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_found_wherever_it_stands(name):
    missed = []
    for beside in BESIDE:
        token = FORMATS[name]()
        text = cleaned(beside.format(token))
        if any(token[start : start + 12] in text for start in range(len(token) - 11)):
            missed.append(beside)

    assert not missed


@pytest.mark.parametrize(
    ("pattern", "text", "spans"),
    [
        (f"{BEFORE}(tok_[a-z]{{4}}){AFTER}", "tok_aaaa,tok_bbbb", ["tok_aaaa", "tok_bbbb"]),
        (f"{BEFORE}(tok_[a-z]{{4}}){AFTER}", "tok_aaaa\\ntok_bbbb", ["tok_aaaa", "tok_bbbb"]),
        (f"{BEFORE}(tok_[a-z]{{4}}){AFTER}", "mytok_aaaa tok_aaaab", []),
        (
            f"{BEFORE}(AB[\\w-]{{4}}){after('_-')}",
            "_ABcd-e_ ABcdefg ABcd_e-f ABcdef--",
            ["ABcd-e", "ABcdef"],
        ),
        (f"key=([a-f]{{4}}){AFTER_VALUE}", "key=abcd. key=abcd.js key=abcd/x key=abcd(", ["abcd"]),
    ],
)
def test_what_is_more_of_it_ends_nothing(pattern, text, spans):
    data = text.encode()

    hits = [hit for hit in Engine((Rule("rule", pattern),)).find(data) if hit is not None]

    assert [data[hit.start : hit.end].decode() for hit in hits] == spans
