"""Write `src/toolbus/redaction/secrets/rules.json` anew, from the rules that kingfisher ships.

    python -m venv venv && venv/bin/pip install kingfisher-bin
    python -m benchmarks.redaction.update_rules venv/bin/kingfisher

Without a command only the keywords are told anew: do so after a change to a rule of ours.

Kingfisher's binary, on PyPI as `kingfisher-bin`, holds the rules of Betterleaks (MIT) and some of
OSV-SCALIBR's Veles (Apache-2.0), and prints them as JSON. After an update run the tests and
`python -m benchmarks --only redaction`, and look at what changed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.redaction.keywords import keywords
from toolbus.redaction.secrets.builtin_rules import BUILTIN_RULES
from toolbus.redaction.secrets.edges import AFTER, AFTER_VALUE, BEFORE, after

TARGET = Path(__file__).parents[2] / "src/toolbus/redaction/secrets/rules.json"

# Kingfisher hides what is only one half of a pair. These halves are secrets, or name an account.
KEPT = {
    "alibaba-access-key-id",
    "alibaba-sts-security-token",
    "aws-secret-access-key",
    "exoscale-api-secret",
    "ovh-consumer-key",
    "polymarket-api-secret",
    "polymarket-passphrase",
}
# The list does not say which group is the secret. Where there are several: its number or name.
GROUPS: dict[str, int | str] = {
    "azure-app-configuration-connection-string": 3,
    "bitbucketcredentials": "GIT_PASSWORD",
    "bitwardenoauth2access": "TOKEN",
    "codecatalystcredentials": "GIT_PASSWORD",
    "codecommitcredentials": "GIT_PASSWORD",
    "generic-credential-uri": "password",
    "jwt-base64": 0,
    "microsoft-teams-webhook": 0,
    "mongodb-connection-string": "password",
    "sonar-api-token": 2,
}
# What is wrong in a published pattern, and what is right.
CORRECTIONS: dict[str, tuple[str, str]] = {
    # A key of anybody is none of Alibaba's.
    "alibaba-secret-key": (r"(?:alibaba|aliyun|secret|key)", r"(?:alibaba|aliyun)"),
    "alibaba-sts-access-key-secret": (r"(?:alibaba|aliyun|secret|key)", r"(?:alibaba|aliyun)"),
    # The old form is that of a member as well, `s.name`: ours looks at it more strictly.
    "vault-service-token": (r"(?:hvs\.[\w-]{90,120}|s\.(?i:[a-z0-9]{24}))", r"hvs\.[\w-]{90,120}"),
    # A long-lived secret may end in "-", and may stand in a sentence.
    "openai-api-key": (r"[A-Za-z0-9_-]{20})\b|sk-", r"[A-Za-z0-9_-]{20})|sk-"),
    # Base64 for URLs, and a backslash is none of it: it begins what a language escapes.
    "jwt": (
        r"ey[a-zA-Z0-9]{17,}\.ey[a-zA-Z0-9\/\\_-]{17,}\.(?:[a-zA-Z0-9\/\\_-]{10,}={0,2})?",
        r"ey[a-zA-Z0-9_-]{17,}\.ey[a-zA-Z0-9_-]{17,}\.(?:[a-zA-Z0-9_-]{10,}={0,2})?",
    ),
    "azure-ad-client-secret": (
        r"""(?:^|[\\'"\x60\s>=:(,)])([a-zA-Z0-9_~.]{3}\dQ~[a-zA-Z0-9_~.-]{31,34})(?:$|[\\'"\x60\s<),])""",
        r"\b([a-zA-Z0-9_~.]{3}\dQ~[a-zA-Z0-9_~.-]{31,34})\b",
    ),
}

# The ends that the published patterns have: of Betterleaks, of Veles, and a word's.
_ENDS = (
    r"""(?:\\?['"\x60]|[\s;]|\\[nr]|$)""",
    r"""(?:(?:\\?(?:["'`]))|(?:[\x09-\x0D\x20;])|(?:\\(?:[NRnr]))|\z))""",
    r"""(?:(?:\\?(?:["'`]))|(?:[\x09-\x0D\x20;])|(?:\\(?:[nr]))|\z))""",
    r"\b",
)
_VELES_BEGINNING = r"(?:(?:\A|(?:[\x00-,\./:-@\[-\^`\{-\xFF]))"
# Letters that begin a token are told by so many.
_DISTINCT = 4
_LITERAL = re.compile(r"(?:\(\?i:|\()*((?:[A-Za-z0-9_-]|\\\.)*)(?![{?*+|])")
_LAST_CLASS = re.compile(r"\[([^\]]*)\](?:\{[\d,]+\}|[+*])?[^\[]*$")


def main(kingfisher: str | None = None) -> None:
    """Write what *kingfisher* lists, or what is there already, and all keywords."""
    if kingfisher is None:
        present = json.loads(TARGET.read_text("utf-8"))
        rules, source = present["rules"], present["source"]
    else:
        listed = json.loads(_said(kingfisher, "rules", "list", "--format", "json"))
        rules = [rule for one in listed if (rule := _translated(one)) is not None]
        source = {
            "package": "kingfisher-bin",
            "version": _said(kingfisher, "--version").split()[-1],
            "licences": "see rules.NOTICE",
        }
    rules = [{**rule, "keywords": keywords(rule["pattern"])} for rule in rules]
    ours = {rule.pattern: keywords(rule.pattern) for rule in BUILTIN_RULES}
    lines = ",\n".join([f"  {json.dumps(rule)}" for rule in rules])
    sections = [
        f'"source": {json.dumps(source)}',
        f'"rules": [\n{lines}\n]',
        f'"builtin_keywords": {json.dumps(ours, indent=1)}',
    ]
    TARGET.write_text("{\n" + ",\n".join(sections) + "\n}\n", "utf-8")
    print(f"{len(rules)} rules, and the keywords of {len(ours)} of ours, written to {TARGET}")


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout


def _translated(listed: dict[str, Any]) -> dict[str, Any] | None:
    """Return a rule as we keep it, or None for one that finds no secret."""
    name = re.sub(r"^(betterleaks\.|veles\.secrets/)|\.\d+$", "", listed["id"])
    if not listed["visible"] and name not in KEPT:
        return None
    pattern = listed["pattern"]
    if pattern.startswith("(?x)"):
        # RE2 knows no verbose mode. Without blanks and comments it says the same.
        pattern = pattern.removeprefix("(?x)")
        if re.search(r"[ #\n]", pattern):
            raise SystemExit(f"{name}: a verbose pattern; translate it by hand")
    # RE2 counts to 1,000; what may be longer may have any length.
    pattern = re.sub(r"\{(\d+),\d{4,}\}", r"{\1,}", pattern)
    if name in CORRECTIONS:
        wrong, right = CORRECTIONS[name]
        if wrong not in pattern:
            raise SystemExit(f"{name}: the pattern is another now; see what is to be corrected")
        pattern = pattern.replace(wrong, right)
    rule = {"name": name, "pattern": _freed(pattern)}
    return {**rule, "group": GROUPS[name]} if name in GROUPS else rule


def _freed(pattern: str) -> str:
    """Return *pattern* so that it finds its token wherever that stands; see `edges`."""
    flags = "(?i)" if pattern.startswith("(?i)") else ""
    body = pattern.removeprefix(flags)
    end = next((end for end in _ENDS if body.endswith(end)), "")
    token = body.removesuffix(end)
    if end == r"\b" and re.match(r"\\b\w", token) and not re.search(r"\((?!\?)", token):
        # Without a group all that matched would be the secret, and what stands before it.
        token = rf"\b({token[2:]})"
    if token.startswith(_VELES_BEGINNING):
        token = r"\b" + token.removeprefix(_VELES_BEGINNING)
    if re.match(r"\\b\((?!\?)", token):
        return flags + BEFORE + token[2:] + (_behind(token[2:]) if end else "")
    if end in {"", r"\b"}:
        return pattern
    return flags + token + AFTER_VALUE


def _behind(token: str) -> str:
    """Return what may stand behind *token*, by its beginning and by the letters of its end."""
    literal = _LITERAL.match(token)
    if literal is not None and len(literal[1].replace("\\", "")) >= _DISTINCT:
        return AFTER
    letters = _LAST_CLASS.search(token)
    signs = "" if letters is None else letters[1].replace(r"\w", "_")
    return after("".join([sign for sign in "_-+/=." if sign in re.sub(r"\w-\w", "", signs)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
