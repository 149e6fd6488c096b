"""Every construct of bash's manual, by its sections: what is read is what bash runs."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from toolbus.policy.shell.command_reader import read_command

TABLE = Path(__file__).parents[3] / "data/policy/bash_constructs.jsonl"
ROWS = [json.loads(line) for line in TABLE.read_text().splitlines()]
# Programs are not found, so bash says what it would have run, and its builtins do no harm.
HARMLESS = """
    exec 9>&1 >/dev/null 2>&1 </dev/null
    command_not_found_handle() { printf '%s\\0' "$@" $'\\1' >&9; }
    export -f command_not_found_handle
    PATH=/nonexistent
    BASH=/bin/bash; bash() { "$BASH" "$@"; }; sh() { "$BASH" "$@"; }
    eval "$0"
    wait
"""


def shown(command):
    words = (command.program, *command.words)
    return " ".join(word.text if word.known else f"<{word.text}>" for word in words)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"])
def test_each_construct_is_read(row):
    reading = read_command(row["text"])

    assert [shown(c) for c in reading.commands if c.program.text] == row["commands"]
    assert [entry.source for entry in reading.unreadable] == row.get("unreadable", [])


@pytest.mark.full
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"])
def test_bash_takes_each_construct(row):
    checked = subprocess.run(["bash", "-n", "-c", row["text"]], capture_output=True, check=False)

    assert (checked.returncode, checked.stderr) == (0, b"")


@pytest.mark.full
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"])
def test_bash_runs_what_was_read(row, tmp_path):
    done = subprocess.run(
        ["/bin/bash", "-c", HARMLESS, row["text"]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=tmp_path,
        env={"HOME": "/home/me"},
        timeout=60,
        check=False,
    )
    ran = [part.split(b"\0")[:-1] for part in done.stdout.split(b"\1\0")[:-1]]
    patterns = [pattern_of(command) for command in read_command(row["text"]).commands]

    assert ran or not re.match("aa[^<&]*$", row["text"])
    for words in ran:
        line = "\0".join(word.decode() for word in words)
        assert "unreadable" in row or any(re.fullmatch(p, line, re.DOTALL) for p in patterns)


def pattern_of(command):
    words = []
    for word in (command.program, *command.words):
        text = word.text
        if word.pattern:
            text = re.sub(r"^(\w+=|)~(?=/|$)", r"\1/home/me", text).replace("~root", "/root")
            text = re.sub(r"\\(.)", r"\1", text)
        words.append(re.escape(text) if word.known else ".*" if word.several else "[^\0]*")
    return "\0".join(words).replace("\\\0.*", "(\0.*)?").replace("\0.*", "(\0.*)?")
