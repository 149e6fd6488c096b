"""Laws of pins: what is pinned is as pinned, in any order, and one character is a difference."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.components.listed_tools import MEMBERS, further_members
from toolbus.errors import ConfigurationError
from toolbus.events.call_values import ToolSpec
from toolbus.policy import PinTools
from toolbus.policy.pins.pin_differences import (
    compare_pins,
    difference_rows,
    skeleton,
    whole_rows,
)
from toolbus.policy.pins.pin_tools import PinJudge
from toolbus.policy.pins.pinned_items import (
    PinnedServer,
    ToolPins,
    pin_instructions,
    pin_program,
    pin_prompt,
    pin_tool,
    read_lock,
    reveal,
    write_lock,
)
from toolbus.settings.visible_text import is_visible
from toolbus.testing import check_guard

ONE = "Of the tools and prompts that begin with a_: One."
LOCK = Path("toolbus.lock")
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text("abcdef_", min_size=1, max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=3)
TOOLS = st.builds(
    ToolSpec,
    name=NAMES,
    description=WORDS.map(lambda text: f"It {text}"),
    input_schema=OBJECTS,
    output_schema=st.none() | OBJECTS,
    annotations=st.dictionaries(st.sampled_from(["title", "readOnlyHint"]), WORDS),
)
LISTS = st.lists(TOOLS, max_size=5, unique_by=lambda spec: spec.name)


def pins_of(specs, instructions="", prompts=()):
    server = PinnedServer(
        {spec.name: pin_tool(spec) for spec in specs},
        {name: pin_prompt(name, prompt) for name, prompt in prompts},
        pin_instructions(instructions),
    )
    return ToolPins(pin_program(specs), {"a": server})


@given(st.data(), LISTS, WORDS, st.dictionaries(NAMES, OBJECTS, max_size=3))
def test_what_is_pinned_is_as_pinned_in_any_order(data, specs, instructions, prompts):
    shuffled = data.draw(st.permutations(specs))
    pinned = pins_of(specs, instructions, prompts.items())
    again = pins_of(shuffled, instructions, reversed(list(prompts.items())))
    written = write_lock(pinned)
    judge = PinJudge(read_lock(LOCK, written))

    assert write_lock(again) == written
    assert compare_pins(read_lock(LOCK, written), again) == []
    assert all(char == "\n" or is_visible(char) for char in written.decode())
    for source in ("", "a", None):
        assert [judge.judge_tool(spec, source) for spec in shuffled] == [None] * len(specs)
    assert judge.are_pinned_instructions(instructions)


def mutated(data, value):
    """Return *value* with one character, key or number of it changed."""
    if isinstance(value, str):
        at = data.draw(st.integers(0, len(value)))
        char = data.draw(st.characters(exclude_categories=["Cs"]).filter(lambda c: c not in value))
        return value[:at] + char + value[at + data.draw(st.integers(0, 1)) :]
    if isinstance(value, dict) and value:
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: mutated(data, value[key])}
    if isinstance(value, dict):
        return {"x": None}
    if isinstance(value, list | tuple):
        return [*value, None]
    return not value if isinstance(value, bool) else f"{value}"


MEMBERS_OF_TOOLS = st.dictionaries(
    st.sampled_from(["icons", "_meta", "execution", "later", "title", "annotations", "name"]),
    JSON | st.dictionaries(st.sampled_from(["title", "badge", "readOnlyHint"]), JSON),
)


@given(MEMBERS_OF_TOOLS, st.data())
def test_any_further_member_must_be_the_pinned_one(tool, data):
    members = further_members(tool)
    spec = ToolSpec(name="read", annotations={MEMBERS: members})
    server = PinnedServer({"read": pin_tool(spec)})
    pins = read_lock(LOCK, write_lock(ToolPins(servers={"a": server})))
    judge = PinJudge(pins)
    kept = {name: value for name, value in members.items() if data.draw(st.booleans())}
    name = data.draw(st.sampled_from([*members, "other"]))
    changed = {**members, name: ["changed", members.get(name)]}

    for same in (members, kept, {}):
        assert judge.judge_tool(ToolSpec(name="read", annotations={MEMBERS: same}), "a") is None
    objection = judge.judge_tool(ToolSpec(name="read", annotations={MEMBERS: changed}), "a")
    assert "has changed since it was pinned" in objection.question
    assert judge.judge_tool(ToolSpec(name="read"), "a") is None


@given(st.data(), TOOLS)
def test_any_change_of_one_character_is_a_difference(data, spec):
    field = data.draw(st.sampled_from(["description", "input_schema", "output_schema"]))
    fields = {name: getattr(spec, name) for name in ToolSpec.__struct_fields__}
    other = ToolSpec(**{**fields, field: mutated(data, fields[field] or {})})
    pinned = pins_of([spec])
    judge = PinJudge(read_lock(LOCK, write_lock(pinned)))

    (change, same) = compare_pins(pinned, pins_of([other]))

    assert (change.change, same.change) == ("changed", "changed")
    assert {each.path.partition(".")[0] for each in change.differences} == {field}
    for source in ("", "a", None):
        objection = judge.judge_tool(other, source)
        assert objection is not None
        assert field in objection.question
        assert all(map(is_visible, "".join(objection.rows)))


@pytest.mark.parametrize(
    ("value", "other"), [(1, True), (1, 1.0), (0, False), ("1", 1), (None, "")]
)
def test_json_knows_what_python_takes_for_equal(value, other):
    spec = ToolSpec(name="read", input_schema={"default": value})
    judge = PinJudge(pins_of([spec]))

    assert judge.judge_tool(spec, "a") is None
    assert judge.judge_tool(ToolSpec(name="read", input_schema={"default": other}), "a") is not None


@given(st.data(), LISTS.filter(bool))
def test_a_digest_belongs_to_its_name(data, specs):
    whole = json.loads(write_lock(pins_of(specs)))
    tools = whole["servers"]["a"]["tools"]
    name = data.draw(st.sampled_from(sorted(tools)))
    tools[name + "x"] = tools.pop(name)

    with pytest.raises(ConfigurationError, match="its digest does not match its text"):
        read_lock(LOCK, json.dumps(whole).encode())


@given(st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_what_is_no_lock_file_is_refused(data):
    with pytest.raises(ConfigurationError):
        read_lock(LOCK, data)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("read_file", "READ-FILE"),
        ("read_file", "reаd_file"),  # noqa: RUF001 - that is what it is about
        ("read_file", "read_fi1e"),
        ("format", "forrnat"),
        ("list", "Iist"),
        ("a", "a\u200b"),
        ("café", "cafe"),
    ],
)
def test_names_that_look_alike_have_one_skeleton(name, other):
    assert skeleton(name) == skeleton(other)


def test_names_that_look_otherwise_have_several():
    names = ["read", "write", "read_file", "read_files", "git_log", "git_diff", "get", "set"]

    assert len({skeleton(name) for name in names}) == len(names)


@given(WORDS)
def test_a_revealed_text_is_the_same_json(text):
    assert json.loads(reveal(json.dumps(text, ensure_ascii=False))) == text


def test_tools_are_hashed_once():
    specs = [ToolSpec(name=f"t{index}", description="It is one.") for index in range(200)]
    judge = PinJudge(pins_of(specs))
    pinned = []

    def count(spec, **_):
        pinned.append(spec.name)
        return pin_tool(spec, **_)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toolbus.policy.pins.pin_tools.pin_tool", count)
        for _ in range(3):
            assert [judge.judge_tool(spec, "a") for spec in specs] == [None] * 200

    assert len(pinned) == 200


def test_a_name_of_several_servers_is_nobody_s():
    spec = ToolSpec(name="read", description="Reads.")
    server = PinnedServer({"read": pin_tool(spec)})
    pins = ToolPins(servers={"a": server, "b": server})

    assert "is pinned for server 'a', server 'b'" in PinJudge(pins).judge_tool(spec, None).reason
    assert PinJudge(pins, "a").judge_tool(spec, None) is None
    assert PinJudge(pins, "c").judge_tool(spec, None) is not None


@pytest.mark.parametrize(
    ("text", "is_pinned"),
    [
        (ONE, True),
        ("Of the tools and prompts that begin with b_: Two.\n\nThree.", True),
        (f"{ONE}\n\nOf the tools and prompts that begin with b_: Two.\n\nThree.", True),
        (f"{ONE}\n\nMore.", False),
        (f"{ONE}\n\n", False),
        ("Of the tools and prompts that begin with b_: One.", False),
        ("One.", True),
        ("One", False),
        ("", True),
    ],
)
def test_instructions_of_several_servers_are_those_of_each(text, is_pinned):
    texts = {"a": "One.", "b": "Two.\n\nThree."}
    servers = {
        name: PinnedServer(instructions=pin_instructions(each)) for name, each in texts.items()
    }

    assert PinJudge(ToolPins(servers=servers)).are_pinned_instructions(text) is is_pinned


def test_a_long_difference_is_shown_where_it_is():
    before = ToolSpec(name="read", description="a" * 5_000 + "b" + "c" * 5_000)
    after = ToolSpec(name="read", description="a" * 5_000 + "B" + "c" * 5_000)
    change, _ = compare_pins(pins_of([before]), pins_of([after]))

    path, *rows = difference_rows(change.differences)
    assert path == "description:"
    assert all("ab" in row.lower() and len(row) < 400 for row in rows)
    assert len("".join(whole_rows(change.differences[0]))) > 20_000


@pytest.mark.full
@pytest.mark.parametrize("is_there", [True, False])
def test_the_guard_keeps_the_laws_of_guards(tmp_path, is_there):
    file = tmp_path / "toolbus.lock"
    if is_there:
        file.write_bytes(write_lock(pins_of([ToolSpec(name="read")])))

    check_guard(PinTools(file))


def test_what_was_advertised_elsewhere_counts_as_it_was_listed():
    spec = ToolSpec(name="read", description="Reads.")
    judge = PinJudge(pins_of([spec]))

    assert not judge.was_pinned("read")
    judge.judge_tool(spec, None)
    assert judge.was_pinned("read")
    judge.judge_tool(ToolSpec(name="read", description="Sends."), None)
    assert not judge.was_pinned("read")


def test_long_names_are_cut_and_cheap():
    judge = PinJudge(pins_of([ToolSpec(name="read")]))

    objection = judge.judge_tool(ToolSpec(name="x" * 100_000), "a")

    assert len(objection.question) < 1_000
