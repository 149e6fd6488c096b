"""Hooks in texts of JSON of any layout: put in and taken out, also after a program wrote anew."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.hosts.install.test_json_edits import VALUES, texts

from toolbus.hosts.install.host_files import HOSTS
from toolbus.hosts.install.json_positions import locate
from toolbus.hosts.install.targets import install_target

FILE, SCRIPT = Path("f.json"), Path("/h/.local/state/toolbus/hooks/x.user/hook.py")
MINE = {"hooks": [{"type": "command", "command": "echo mine"}]}
EVENTS = ("PreToolUse", "PostToolUse", "Stop", "preToolUse", "Other")
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "hooks": st.dictionaries(
            st.sampled_from(EVENTS), st.lists(st.just(MINE), max_size=2), max_size=3
        ),
        "env": st.dictionaries(
            st.sampled_from(["A", "MAX_MCP_OUTPUT_TOKENS"]), st.sampled_from(["1", "10000000"])
        ),
        "version": st.just(1),
        "model": VALUES,
    },
)


@pytest.mark.parametrize(
    "host", [host for host in HOSTS if HOSTS[host].form in {"groups", "entries"}]
)
@given(texts(DOCUMENTS), st.booleans())
def test_hooks_come_and_go_in_any_layout(host, text, has_crlf):
    if has_crlf:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    target = install_target(host, None, SCRIPT, "/usr/bin/python3")
    value = locate(FILE, text).value

    installed, added, before = target.install(text)
    written_anew = json.dumps(locate(FILE, installed).value, indent=4)

    assert target.holds(installed)
    assert not any("mine" in line for line in added)
    assert target.remove(installed, before) == text
    rest = target.remove(written_anew, before)
    assert locate(FILE, rest).value == value
    without_record = target.remove(written_anew, None) or "{}"
    assert not target.is_present(without_record)
    assert without_record.count("mine") == json.dumps(value).count("mine")
