"""Write `src/toolbus/redaction/secrets/rules.json` anew, from the rules that kingfisher ships.

Write also the keywords into our own rules, in `builtin.toml` beside it.

    python -m venv venv && venv/bin/pip install kingfisher-bin
    python -m benchmarks.redaction.update_rules venv/bin/kingfisher

Without a command only the keywords are written anew: do so after a change to a rule of ours.

Kingfisher's binary, on PyPI as `kingfisher-bin`, holds the rules of Betterleaks (MIT) and some of
OSV-SCALIBR's Veles (Apache-2.0), and prints them as JSON. What we change in them is in
`corrections.py`. After an update run the tests and `python -m benchmarks --only redaction`, and
look at what changed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.redaction import corrections
from benchmarks.redaction.freeing import freed
from benchmarks.redaction.keywords import keywords
from toolbus.redaction.secrets.rules import read_builtin

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[2] / "src/toolbus/redaction/secrets"
TARGET, OURS = FOLDER / "rules.json", FOLDER / "builtin.toml"

_RECORD, _LINE = "\n[[rules]]\n", 100
_GROUP = re.compile(r"(?<!\\)\((?!\?(?!P<))")
_KEYWORDS = re.compile(r"(?ms)^keywords = \[.*?\]\n")

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


def main(kingfisher: str | None = None) -> None:
    """Write what *kingfisher* lists, or what is there already, and all keywords."""
    if kingfisher is None:
        present = json.loads(TARGET.read_text("utf-8"))
        rules, source = present["rules"], present["source"]
    else:
        listed = json.loads(_said(kingfisher, "rules", "list", "--format", "json"))
        rules = [rule for one in listed for rule in _translated(one)]
        source = {
            "package": "kingfisher-bin",
            "version": _said(kingfisher, "--version").split()[-1],
            "licences": "see rules.NOTICE",
        }
    rules = [{**rule, "keywords": keywords(rule["pattern"])} for rule in rules]
    lines = ",\n".join([f"  {json.dumps(rule)}" for rule in rules])
    sections = [
        f'"source": {json.dumps(source)}',
        f'"rules": [\n{lines}\n]',
    ]
    TARGET.write_text("{\n" + ",\n".join(sections) + "\n}\n", "utf-8")
    OURS.write_text(with_keywords(OURS.read_text("utf-8")), "utf-8")
    print(f"{len(rules)} rules, and the keywords of ours, written to {FOLDER}")


def with_keywords(text: str) -> str:
    """Return the *text* of `builtin.toml` with the keywords of each pattern, where any stood."""
    before, *records = text.split(_RECORD)
    written = [before]
    for record, rule in zip(records, read_builtin(text).rules, strict=True):
        line = _written(keywords(rule.pattern)).replace("\\", r"\\")
        written.append(_KEYWORDS.sub(line, record, count=1))
    return _RECORD.join(written)


def _written(words: tuple[str, ...]) -> str:
    """Return the key with *words*, in lines of up to 100 letters."""
    items = [json.dumps(word) for word in words]
    line = f"keywords = [{', '.join(items)}]\n"
    if len(line) <= _LINE + 1:
        return line
    lines = ["keywords = [", " "]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > _LINE:
            lines.append(" ")
        lines[-1] += f" {item},"
    return "\n".join([*lines, "]\n"])


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout


def _translated(listed: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give a rule as we keep it: none, if it finds no secret, or several of one name."""
    name = re.sub(r"^(betterleaks\.|veles\.secrets/)|\.\d+$", "", listed["id"])
    if not listed["visible"] and name not in KEPT:
        return
    for pattern in corrections.corrected(name, _in_re2(name, listed["pattern"])):
        rule: dict[str, Any] = {"name": name, "pattern": freed(pattern)}
        if name in GROUPS:
            rule["pattern"] = valued(rule["pattern"], GROUPS[name])
        if corrections.TEMPLATE in pattern or name in corrections.KEYED:
            rule["keyed"] = True
        yield rule


def valued(pattern: str, group: int | str) -> str:
    """Return *pattern* with the name `value` for its *group*, in which the secret stands."""
    if isinstance(group, str):
        return pattern.replace(f"(?P<{group}>", "(?P<value>")
    openings = [0, *[match.end() for match in _GROUP.finditer(pattern)]]
    if group == 0:
        return f"(?P<value>{pattern})"
    return f"{pattern[: openings[group]]}?P<value>{pattern[openings[group] :]}"


def _in_re2(name: str, pattern: str) -> str:
    """Return *pattern* in RE2's syntax."""
    if pattern.startswith("(?x)"):
        # RE2 knows no verbose mode. Without blanks and comments it says the same.
        pattern = pattern.removeprefix("(?x)")
        if re.search(r"[ #\n]", pattern):
            raise SystemExit(f"{name}: a verbose pattern; translate it by hand")
    # RE2 counts to 1,000; what may be longer may have any length.
    return re.sub(r"\{(\d+),\d{4,}\}", r"{\1,}", pattern)


if __name__ == "__main__":
    main(*sys.argv[1:])
