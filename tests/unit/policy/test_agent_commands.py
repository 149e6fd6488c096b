"""The shell commands as agents send them are frozen, so that what they measure can be compared."""

import hashlib
import json
from pathlib import Path

import pytest

from toolbus import EventBus, Scope, ToolCall
from toolbus.components.call_facts import FactSources
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.policy import policy as policy_module
from toolbus.policy.policy import Policy
from toolbus.policy.shared_facts import StatedFacts

FOLDER = Path(__file__).parents[2] / "data/agent_commands"
DIGESTS = {
    "seen": "2e58e3e7d643c0fed47e4131f87c2299f88f308599465cbe5b250a421a699337",
    "unseen": "72b9583fb5a4e88369aab1626606ae0ff18c43f4d62c71b3e7ecbeea52c7c8a4",
}
STRUCTURED = {
    *("variable", "loop", "condition", "cd", "pipeline", "heredoc", "substitution"),
    *("process-substitution", "function"),
}

POLICIES = {
    "reads": 'default = "ask"\nfolder = "."\n[[rule]]\nname = "reads"\nverdict = "allow"\n'
    'effects = ["read", "network"]\n',
    "start": Path(policy_module.__file__).with_name("starting_policy.toml").read_text(),
}


def records(half):
    return [json.loads(line) for line in (FOLDER / f"{half}.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("half", DIGESTS)
def test_a_half_is_as_it_was_frozen(half):
    content = (FOLDER / f"{half}.jsonl").read_bytes()

    assert hashlib.sha256(content).hexdigest() == DIGESTS[half]
    assert DIGESTS[half] in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize(("half", "parity"), [("seen", 0), ("unseen", 1)])
def test_the_hash_of_a_command_tells_its_half(half, parity):
    hashes = [hashlib.sha256(one["command"].encode()).digest() for one in records(half)]

    assert {digest[-1] % 2 for digest in hashes} == {parity}


def test_there_are_enough_and_no_two_are_equal():
    commands = [one["command"] for half in DIGESTS for one in records(half)]

    assert len(commands) == len({*commands}) >= 1500


def test_three_of_ten_have_a_structure():
    shapes = [{*one["shape"]} for half in DIGESTS for one in records(half)]

    assert sum(bool(shape & STRUCTURED) for shape in shapes) / len(shapes) >= 0.3


class NothingInView:
    """A source of facts that states no text in view."""

    async def facts_of(self, _ctx):
        return StatedFacts()


@pytest.mark.full
@pytest.mark.parametrize("half", DIGESTS)
@pytest.mark.parametrize("name", POLICIES)
async def test_nothing_is_allowed_that_was_not_and_hardly_more_is_asked(
    half, name, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file = tmp_path / "project" / "policy.toml"
    file.parent.mkdir()
    file.write_text(POLICIES[name])
    file.chmod(0o600)
    monkeypatch.chdir(file.parent)
    before = set(json.loads((FOLDER / "allowed.json").read_bytes())[f"{half} {name}"])
    policy, bus, allowed = Policy.read(file), EventBus(), {}
    bus.shared(FactSources).facts.append(NothingInView())

    async with policy.installed(bus):
        for record in records(half):
            command = record["command"]
            digest = hashlib.sha256(command.encode()).hexdigest()[:10]
            call = ToolCall(id=digest, name="shell", arguments={"command": command})
            context = await bus.apply(TOOL_CALL_BEFORE, call, scope=Scope(session_id=digest))
            if not (context.denied or context.asked):
                allowed[digest] = command

    assert {digest: allowed[digest] for digest in allowed.keys() - before} == {}
    assert len(allowed) >= len(before) - len(records(half)) / 100
