"""Each policy of the guide is tried with calls that it must not allow.

`recipe_attacks.jsonl` is a table of calls: its `source` names a page and a policy's place on it.
"""

import json
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from code_blocks import read_code_blocks
from toolbus.cli.guide import pages
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.policy.tools.verdict_tables import check_rows, read_rows

TABLE = Path(__file__).parents[3] / "data/policy/recipe_attacks.jsonl"
FEWEST = 10
FILES = (
    *(".env", "config/.env", ".env.example", "key.pem", ".git/config"),
    *("src/a.py", "src/a.sh", "notes.txt", "sub/a", "../.ssh/id_rsa", "../.aws/credentials"),
)
LINKS = {"out": "/etc", "link-out.txt": "/etc/passwd", "link.txt": ".env"}


def policies():
    """Return the text of each policy of the guide by page and place; the same one counts once."""
    texts, seen = {}, []
    for page in sorted(Path(pages.__file__).parent.glob("*.md")):
        place = 0
        for block in read_code_blocks(page.stem, page.read_text("utf-8")):
            table = tomllib.loads(block.text) if block.kind == "toml" else {}
            if "rule" in table:
                place += 1
                if table not in seen:
                    seen.append(table)
                    texts[f"{page.stem}#{place}"] = block.text
    return texts


POLICIES = policies()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a project in a home folder, with secrets, and links that lead out."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "project"
    for name in FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for name, target in LINKS.items():
        (folder / name).symlink_to(target)
    return folder


def test_each_policy_has_attacks():
    counts = defaultdict(int)
    for line in TABLE.read_text("utf-8").splitlines():
        counts[json.loads(line)["source"]] += 1

    assert counts.keys() == POLICIES.keys()
    assert min(counts.values()) >= FEWEST


@pytest.mark.parametrize("name", POLICIES)
def test_it_stops_what_it_must_not_allow(name, project):
    file = project / "policy.toml"
    file.write_text(POLICIES[name])
    rows = [row for row in read_rows(TABLE) if row.source == name]

    results = list(check_rows(PolicyFile(file).read(), rows, str(project)))

    assert [(each.row.shown, each.difference) for each in results if each.difference] == []
    assert all(each.verdict != "allow" for each in results)
