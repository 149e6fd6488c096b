"""What no rule lifts, and how a changed file is taken up, through the component itself."""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from toolbus import Agent, EventBus, ToolCall, UserMessage
from toolbus.config import configuration
from toolbus.config.snapshots import take_snapshot
from toolbus.config.trust import trust
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Scope
from toolbus.messages.records import AssistantMessage
from toolbus.models.scripted import ScriptedModel
from toolbus.policy import Policy
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore
from toolbus.workspace.shell_tool import ShellTool

ALLOW = 'default = "allow"\nfolder = "."\n'
DENY = '[[rule]]\nname = "no x"\nverdict = "deny"\ntools = ["x"]\n'


LIFTS = """[[rule]]
name = "all of it"
verdict = "allow"
command = ["tmux", "screen", "sqlite3"]
"""


async def write_store(path):
    async with SqliteStore(path) as store:
        await store.append("s", AppendRequest(message=UserMessage(content="go")))


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A project with a policy that allows everything, and a home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    folder = tmp_path / "shop"
    folder.mkdir(mode=0o700)
    (tmp_path / ".config" / "toolbus").mkdir(parents=True, mode=0o700)
    (tmp_path / ".config").chmod(0o700)
    (folder / "rules.toml").write_text(ALLOW)
    (folder / "notes").write_text("notes")
    own = ".local/state/toolbus"
    for secret in (
        ".config/toolbus/approvals.secret",
        *(f"{own}/logins/a.json", f"{own}/hidden-values.key"),
    ):
        (tmp_path / secret).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / secret).write_text("secret")
    asyncio.run(write_store(folder / "s.db"))
    (folder / "toolbus.toml").write_text(
        '[[component]]\nuse = "toolbus.policy.policy:Policy"\nsettings = { file = "rules.toml" }\n'
    )
    (folder / "soft").symlink_to("rules.toml")
    os.link(folder / "rules.toml", folder / "hard")
    for file in ("rules.toml", "toolbus.toml"):
        (folder / file).chmod(0o600)
    monkeypatch.chdir(folder)
    return folder


async def verdict(policy, name, arguments=None, session="s", text=""):
    bus = EventBus()
    call = ToolCall(id="c", name=name, arguments=arguments or {})
    async with policy.installed(bus):
        context = await bus.apply(TOOL_CALL_BEFORE, call, scope=Scope(session_id=session))
    if context.denied:
        assert text in context.denied.reason
        return "deny"
    return "ask" if context.asked else "allow"


async def line(policy, command):
    return await verdict(policy, "shell", {"command": command})


@pytest.mark.parametrize(
    "command",
    [
        "echo > rules.toml",
        "echo >> ./sub/../rules.toml",
        "sed -i s/ask/allow/ rules.toml",
        "echo > soft",
        "echo > hard",
        "cp notes rules.toml",
        "mv notes rules.toml",
        "rm rules.toml",
        "rm -rf ../shop",
        "mv ../shop ../other",
        "mv ~/.config ~/other",
        "ln -s ../rules.toml other",
        "tee ~/.config/toolbus/trusted.json",
        "echo > ~/.claude/settings.json",
        "echo > toolbus.lock",
        "touch toolbus.toml",
        "bash -c 'echo > rules.toml'",
        "cd .. && echo > shop/rules.toml",
        "toolbus trust toolbus.toml",
        "python -m toolbus trust toolbus.toml",
        "sudo toolbus policy init",
        "uv run toolbus login https://example.com",
        "ls; toolbus pin",
        "tmux send-keys -t 0 'toolbus approvals approve 8c01' Enter",
        "tmux new-session -d toolbus --x trust",
        "screen -X stuff 'toolbus policy init'",
        "setsid script -qec 'toolbus approvals approve 8c01' /dev/null",
        "env -u TOOLBUS_JUDGED toolbus approvals",
        "cat ~/.config/toolbus/approvals.secret",
        "base64 < ~/.config/toolbus/approvals.secret",
        "cp ~/.config/toolbus/approvals.secret notes",
        "cp -r ~/.config/toolbus other",
        "grep -r whsec ~/.config",
        "head ~/.config/toolbus/*",
        "cat ~/.config/toolbus/webhook.key",
        "F=~/.config/toolbus/approvals.secret; cat $F",
        "cd ~/.config/toolbus && cat approvals.secret",
        "cat ~/.local/state/toolbus/logins/a.json",
        "xxd ~/.local/state/toolbus/hidden-values.key",
        "cp -r ~/.local/state/toolbus notes.d",
        'cat "$HOME/.local/state/toolbus/hidden-values.key"',
        'cat "$HOME"/.config/toolbus/approvals.secret',
        "tar -C ~/.local/state -cf a.tar toolbus",
        "dd if=~/.config/toolbus/approvals.secret",
        "head -c 32 /dev/urandom > ~/.local/state/toolbus/hidden-values.key",
        "truncate -s 0 ~/.local/state/toolbus/hidden-values.key",
        "rm ~/.local/state/toolbus/hidden-values.key",
        "mv x ~/.local/state/toolbus/hidden-values.key",
        "ln -s ~/.local/state/toolbus/hidden-values.key notes.k",
        "chmod 644 ~/.config/toolbus/approvals.secret",
        "printf y > /dev/pts/0",
        "sqlite3 s.db 'update states set body = 1'",
        "sqlite3 s.db < notes",
        "cat $X > rules.toml",
        "sed -n 1p $(ls) >> rules.toml",
        "toolbus $X > rules.toml",
    ],
)
async def test_no_rule_lets_a_command_change_what_judges_it(shop, command):
    command = command.replace("ln -s ../rules.toml", "ln -s rules.toml")
    (shop / "rules.toml").write_text(ALLOW + LIFTS)
    assert await line(Policy.read("rules.toml"), command) == "deny"


@pytest.mark.parametrize("start", ["/proc/self/root", "/proc/self/task/1/root", "/proc/1/root"])
async def test_a_secret_is_not_read_through_a_link_of_a_process(shop, start):
    (shop / "rules.toml").write_text(ALLOW)
    policy = Policy.read("rules.toml")

    assert await line(policy, f"cat {start}{shop.parent}/.config/toolbus/approvals.secret") == "ask"
    assert await line(policy, "cat /proc/self/status /proc/cpuinfo") == "allow"


@pytest.mark.parametrize(
    "command",
    [
        *("echo > notes", "rm notes", "cat rules.toml", "mkdir -p x && cp notes x/", "ls ."),
        *(
            "sqlite3 s.db 'select 1'",
            "cat ~/.config/toolbus/toolbus.toml",
        ),
        *("grep -r trust ~/shop", "echo toolbus trust"),
    ],
)
async def test_all_else_is_for_the_rules(shop, command):
    (shop / "rules.toml").write_text(ALLOW + LIFTS)
    assert await line(Policy.read("rules.toml"), command) == "allow"


@pytest.mark.parametrize(
    "command", ["tmux send-keys -t 0 ls", "sqlite3 notes 'update x set y = 1'"]
)
async def test_what_may_be_harmless_is_asked_about(shop, command):
    assert await line(Policy.read("rules.toml"), command) == "ask"


async def test_a_secret_is_read_by_no_tool(shop):
    policy, secret = (
        Policy.read("rules.toml"),
        str(Path.home() / ".config/toolbus/approvals.secret"),
    )
    (shop / "rules.toml").write_text(ALLOW + '[tools.read]\neffects = ["read"]\nreads = ["path"]\n')
    declared = Policy.read("rules.toml")

    assert await verdict(declared, "read", {"path": secret}) == "deny"
    assert await verdict(declared, "read", {"path": "notes"}) == "allow"
    assert await verdict(declared, "read", {"file": secret}) == "ask"
    assert await verdict(policy, "unheard", {"files": [{"at": secret}]}) == "ask"


async def test_tools_that_are_no_shell_do_not_either(shop):
    policy = Policy.read("rules.toml")
    (shop / "rules.toml").write_text(
        ALLOW + '[tools.write]\neffects = ["write"]\nwrites = ["path"]\n'
    )
    declared = Policy.read("rules.toml")

    assert await verdict(declared, "write", {"path": "rules.toml"}) == "deny"
    assert await verdict(declared, "write", {"path": "notes"}) == "allow"
    assert await verdict(policy, "unheard", {"path": "rules.toml"}) == "ask"
    assert await verdict(policy, "unheard", {"edits": [{"at": "rules.toml"}]}) == "ask"
    assert await verdict(policy, "unheard", {"edits": [{"at": "notes"}]}) == "allow"
    decoy = {"path": "notes", "edits": [{"at": "rules.toml"}]}
    assert await verdict(policy, "unheard", decoy) == "ask"
    assert await verdict(policy, "unheard", {"path": "notes", "at": "other"}) == "allow"


async def test_no_number_of_texts_hides_one(shop):
    policy = Policy.read("rules.toml")

    for count, expected in ((1_000, "allow"), (1_001, "ask")):
        assert await verdict(policy, "unheard", {"names": ["x"] * count}) == expected


async def test_the_model_changes_nothing_of_it(shop):
    before = (shop / "rules.toml").read_bytes()
    commands = ["echo x > rules.toml", "rm -rf data", "echo x > data/s.db", "echo done"]
    (shop / "data").mkdir()

    async with SqliteStore(shop / "data" / "s.db") as store:
        calls = [
            ToolCall(id=f"c{n}", name="shell", arguments={"command": each})
            for n, each in enumerate(commands)
        ]
        model = ScriptedModel([AssistantMessage(tool_calls=tuple(calls)), "done"])
        policy = Policy.read("rules.toml")
        async with Agent(model, components=[ShellTool(), policy], store=store) as agent:
            await agent.run("go")

    answers = [str(message) for message in model.requests[1].messages if message.role == "tool"]
    assert ["a protection that no rule lifts" in text for text in answers] == [
        True,
        True,
        True,
        False,
    ]
    assert "done" in answers[3]
    assert (shop / "rules.toml").read_bytes() == before
    assert (shop / "data" / "s.db").stat().st_size > 1_000


async def test_a_changed_file_tightens_at_once_and_loosens_for_nobody(shop, caplog):
    policy = Policy.read("rules.toml")
    assert await verdict(policy, "x") == "allow"

    (shop / "rules.toml").write_text(ALLOW + DENY)
    assert await verdict(policy, "x", text="no x") == "deny"
    assert "only its stricter rules" in caplog.text

    (shop / "rules.toml").write_text(ALLOW)
    assert await verdict(policy, "x") == "deny"
    assert await verdict(policy, "x", session="new") == "deny"
    assert await verdict(policy, "y", session="new") == "allow"


@pytest.mark.parametrize("damage", ["", "default = 3", None])
async def test_a_file_that_breaks_leaves_the_old_rules(shop, damage, caplog):
    (shop / "rules.toml").write_text('default = "deny"')
    policy = Policy.read("rules.toml")
    assert await verdict(policy, "x") == "deny"

    (shop / "rules.toml").unlink()
    if damage is not None:
        (shop / "rules.toml").write_text(damage)
    assert await verdict(policy, "x") == "deny"
    assert caplog.records


async def test_a_trusted_change_is_for_new_sessions(shop, caplog):
    trust(take_snapshot(shop / "toolbus.toml"))
    ((policy,),) = (configuration.read().components,)
    assert await verdict(policy, "x", session="old") == "allow"

    (shop / "rules.toml").write_text(ALLOW + DENY)
    assert await verdict(policy, "x", session="old") == "allow"
    assert "NOT active" in caplog.text

    trust(take_snapshot(shop / "toolbus.toml"))
    assert await verdict(policy, "x", session="new") == "deny"
    assert await verdict(policy, "x", session="old") == "deny"

    (shop / "rules.toml").write_text(ALLOW)
    trust(take_snapshot(shop / "toolbus.toml"))
    assert await verdict(policy, "x", session="newest") == "allow"
    assert await verdict(policy, "x", session="new") == "deny"


async def test_the_configuration_of_a_policy_is_protected(shop):
    (shop / "toolbus.toml").rename(shop / "other.toml")
    ((policy,),) = (configuration.read("other.toml").components,)

    assert await line(policy, "echo > other.toml") == "deny"
    assert await line(policy, "echo > notes") == "allow"


async def test_pins_of_any_name_are_protected(shop):
    pins = '[[component]]\nuse = "toolbus.policy.pins.pin_tools:PinTools"\n'
    text = (shop / "toolbus.toml").read_text()
    (shop / "other.toml").write_text(f'{text}{pins}settings = {{ file = "tools.json" }}\n')
    policy, _ = configuration.read("other.toml").components

    assert await line(policy, "echo > tools.json") == "deny"
    assert await line(policy, "echo > notes") == "allow"


async def test_the_ledger_says_what_protects(shop, caplog):
    caplog.set_level(logging.CRITICAL)
    records = []
    bus = EventBus()
    bus.tap(records.append)
    call = ToolCall(id="c", name="shell", arguments={"command": "rm rules.toml"})
    async with Policy.read("rules.toml").installed(bus):
        await bus.apply(TOOL_CALL_BEFORE, call, scope=Scope(session_id="s"))

    assert "protection" in str(records)
