"""The scenarios of `specs/hooks.md`."""

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

from toolbus.approvals import answer as answer_question
from toolbus.approvals import revoke_grant
from toolbus.approvals.records import questions_of
from toolbus.cli import main
from toolbus.hosts.run.event_answer import answer
from toolbus.hosts.run.requests import HookSettings
from toolbus.store import SqliteStore

SECRET = "ghp_" + "a8Kq2Lw9Zx7Vb4Nm6Rt1Yc3Pd5Hf0Js8Gu2Q"[:36]
IMPORTS = "from toolbus import AgentComponent, Deny, ToolResponse, events, guard, on\n"
POLICY = """
[[component]]
use = "policy"
[component.settings]
default = "allow"
[[component.settings.rule]]
name = "no-removal"
verdict = "deny"
command = "rm"
reason = "nothing is removed here"
[[component.settings.rule]]
name = "ask-first"
verdict = "ask"
command = "git push"
reason = "it leaves this machine"
"""
REDACTION = '[[component]]\nuse = "redact-secrets"\n'
LOCAL = '[[component]]\nuse = "./rules.py:{}"\n'
NEVER = """
class Never(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx): return Deny("never, by my own guard")
"""


class Place:
    """The folders of a test, and one session of Gemini CLI in the project."""

    def __init__(self, base):
        self.project, self.own = base / "project", base / "home/.config/toolbus"
        self.store = base / "state/hooks.db"
        for folder in (self.project / ".git", self.own):
            folder.mkdir(parents=True)
        self.config = None

    def named(self, text, python=""):
        """Write a configuration which the installation names."""
        self.config = str(self.write(self.own.parent / "named", text, python))

    def write(self, folder, text, python=""):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rules.py").write_text(IMPORTS + dedent(python))
        (folder / "toolbus.toml").write_text(text)
        return folder / "toolbus.toml"

    def tell(self, host, event, payload, limit=20.0):
        """Return what *host* is told of its event, as JSON; {} if nothing."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        environment = HookSettings(config=self.config, store=self.store, limit=limit)
        made = answer(host, event, data, environment)
        assert (made.stderr, made.exit_code) == (b"", 0)
        return json.loads(made.stdout or b"{}")

    def gemini(self, event, session="s1", folder=None, **facts):
        payload = {"session_id": session, "cwd": str(folder or self.project), **facts}
        return self.tell("gemini-cli", event, payload)

    def call(self, command="ls", **facts):
        shell = {"tool_name": "run_shell_command", "tool_input": {"command": command}}
        return self.gemini("BeforeTool", **{**shell, **facts})

    def result(self, text, command="ls", **facts):
        shell = {"tool_name": "run_shell_command", "tool_input": {"command": command}}
        return self.gemini("AfterTool", tool_response={"llmContent": text}, **shell, **facts)

    def command(self, *words, data=b"{}"):
        """Return what `toolbus hook` writes and how it ends, in a process of its own."""
        store = ("--store", str(self.store))
        return subprocess.run(
            [sys.executable, "-m", "toolbus", "hook", *words, *store],
            input=data,
            capture_output=True,
            cwd=self.project,
            timeout=60,
            check=False,
        )

    def records(self):
        pages = sqlite3.connect(self.store).execute("SELECT body FROM ledger").fetchall()
        return [record for (page,) in pages for record in json.loads(page)]

    def answer(self, *, session="s1", **verdict):
        """Answer the latest question of a session as a person who was shown it."""
        question = self.questions(session)[-1]

        async def give(store):
            return await answer_question(store, question.id, question.digest, by="ann", **verdict)

        assert self.in_store(give).status == "accepted"

    def questions(self, session="s1", host="gemini-cli"):
        return self.in_store(lambda store: questions_of(store, f"{host}:{session}"))

    def in_store(self, work):
        async def run():
            async with SqliteStore(self.store) as store:
                return await work(store)

        return asyncio.run(run())

    def stored(self):
        return b"".join(file.read_bytes() for file in self.store.parent.iterdir())


@pytest.fixture
def place(tmp_path, monkeypatch, as_person):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    made = Place(tmp_path)
    monkeypatch.chdir(made.project)
    return made


def test_a_denied_call_does_not_run(place):
    place.named(POLICY)

    told = place.call("cd /tmp && rm -rf x")

    assert told["decision"] == "deny"
    assert "nothing is removed here" in told["reason"]


def test_rewriters_compose_in_their_order(place):
    place.named(
        LOCAL.format("First") + LOCAL.format("Second").replace("]\n", ']\nname = "2"\n', 1),
        """
        def added(ctx, text):
            return ctx.value.merge_arguments({"command": ctx.value.arguments["command"] + text})
        class First(AgentComponent):
            @on(events.TOOL_CALL_BEFORE)
            def rewrite(self, ctx): return added(ctx, " && first")
        class Second(AgentComponent):
            @on(events.TOOL_CALL_BEFORE)
            def rewrite(self, ctx): return added(ctx, " && second")
        """,
    )

    told = place.call("ls")

    assert told["hookSpecificOutput"]["tool_input"] == {"command": "ls && first && second"}


def test_the_host_asks_its_own_person(place):
    place.named(POLICY)
    arguments = {"command": "git push"}
    facts = {"call_id": "c1", "tool": "bash", "arguments": arguments, "can_ask": True}

    told = place.tell("pi", "tool_call", {"session_id": "s1", "folder": "/", **facts})

    assert "it leaves this machine" in told["ask"]


def test_a_host_without_questions_denies_with_an_id(place):
    place.named(POLICY)

    told = place.call("git push")

    (question,) = place.questions()
    assert told["decision"] == "deny"
    assert told["reason"] == (
        f"a person must approve this call; question {question.id} waits. "
        "Call it again with the same arguments to learn the answer"
    )
    assert (question.state, question.host) == ("pending", "gemini-cli")
    assert "rule 'ask-first': it leaves this machine" in question.prompt
    assert question.arguments["command"] == "git push"


def test_an_answer_stands_for_the_call(place):
    place.named(
        LOCAL.format("Cache"),
        """
        class Cache(AgentComponent):
            @on(events.TOOL_CALL_BEFORE)
            def answer(self, ctx): return ToolResponse.from_text("known already")
        """,
    )

    told = place.call("ls")

    assert told == {"decision": "deny", "reason": "known already"}


def test_relative_paths_begin_where_the_event_happened(place):
    file = place.project / "secret.txt"
    rule = f'name = "own"\nverdict = "deny"\nreads = ["{file}"]\nreason = "not that file"\n'
    place.named(f"{POLICY}[[component.settings.rule]]\n{rule}")

    here = place.call("cat secret.txt")
    elsewhere = place.call("cat secret.txt", folder=place.own)

    assert "not that file" in here["reason"]
    assert elsewhere == {}


def test_an_approved_call_runs_once(place):
    place.named(POLICY)
    place.call("git push")
    place.answer(approve=True)

    allowed = place.call("git push")
    taken = place.questions()[0].state
    place.result("pushed", "git push")
    again = place.call("git push")

    first, second = place.questions()
    assert (allowed, taken) == ({}, "taken")
    assert (first.state, first.answered_by, second.state) == ("done", "ann", "pending")
    assert second.id in again["reason"]


def test_a_no_reaches_the_model_once(place):
    place.named(POLICY)
    place.call("git push")
    place.answer(approve=False, reason="not on a Friday")

    told, again = place.call("git push"), place.call("git push")

    first, second = place.questions()
    assert (told["decision"], told["reason"]) == ("deny", "not on a Friday")
    assert (first.state, second.state) == ("denied", "pending")
    assert second.id in again["reason"]


def test_a_hidden_value_waits_as_well(place):
    place.named(REDACTION + POLICY)
    command = f"git push https://{SECRET}@example.com/x"
    place.call(command)
    place.answer(approve=True)

    allowed = place.call(command)
    taken = place.questions()[0].state
    place.result("pushed", command)
    again = place.call(command)

    first, second = place.questions()
    assert (allowed, taken) == ({}, "taken")
    assert (first.state, first.hidden, second.state) == ("done", True, "pending")
    assert second.id in again["reason"]
    assert first.arguments == second.arguments
    assert "[github-pat-" in first.arguments["command"]
    assert SECRET.encode() not in place.stored()


def test_another_hidden_value_waits_for_itself(place):
    place.named(REDACTION + POLICY)
    place.call(f"git push https://{SECRET}@example.com/x")
    place.answer(approve=True)
    shown = place.questions()[0].arguments["command"]

    other = place.call(f"git push https://{SECRET[:-1]}z@example.com/x")
    quoted = place.call(shown)

    questions = place.questions()
    assert other["decision"] == quoted["decision"] == "deny"
    assert [each.state for each in questions] == ["approved", "pending"]
    assert [each.hidden for each in questions] == [True, True]
    assert len({each.arguments["command"] for each in questions}) == 2
    assert place.call(f"git push https://{SECRET}@example.com/x") == {}


def test_another_call_needs_its_own_yes(place):
    place.named(POLICY)
    place.call("git push")
    place.answer(approve=True)

    other = place.call("git push --force")
    elsewhere = place.call("git push", session="s2")

    assert other["decision"] == elsewhere["decision"] == "deny"
    assert [each.state for each in place.questions()] == ["approved", "pending"]
    assert [each.state for each in place.questions("s2")] == ["pending"]
    assert place.call("git push") == {}


def test_a_grant_is_for_calls_like_it(place):
    rule = 'name = "tags"\nverdict = "ask"\ncommand = "git tag"\nreason = "it is for ever"\n'
    place.named(f"{POLICY}[[component.settings.rule]]\n{rule}")
    place.call("git push")
    place.answer(approve=True, grant="session")

    alike = place.call("git push --force")
    others = [place.call("git tag v1"), place.call("git push", session="s2")]

    _, granted, other = place.questions()
    assert (alike, granted.state, bool(granted.grant), other.state) == (
        {},
        "taken",
        True,
        "pending",
    )
    assert [each["decision"] for each in others] == ["deny", "deny"]


def test_without_a_result_the_end_is_unknown(place):
    place.named(POLICY)
    place.call("git push")
    place.answer(approve=True)
    place.call("git push")

    place.gemini("BeforeAgent", prompt="and now?")
    unknown = place.questions()[0].state
    place.result("pushed", "git push")

    (question,) = place.questions()
    assert (unknown, question.state) == ("unknown", "done")
    assert question.settled_by == "toolbus: the host reported its result"


def test_a_repeated_call_says_so(place):
    place.named(POLICY)
    place.call("git push")
    place.answer(approve=True)
    place.call("git push")

    place.call("git push")
    place.call("git push origin")

    first, again, other = place.questions()
    assert (first.state, again.may_have_run_ns) == ("taken", first.taken_ns)
    assert other.may_have_run_ns == 0


def test_a_result_belongs_to_its_own_turn(place):
    place.named(POLICY)
    for prompt in ("push it", "and now?"):
        place.gemini("BeforeAgent", prompt=prompt)
        place.call("git push")
        place.answer(approve=True)
        place.call("git push")

    place.result("pushed", "git push")

    assert [question.state for question in place.questions()] == ["unknown", "done"]


def test_a_host_may_be_kept_from_asking(place):
    place.named(f"{POLICY}[approvals]\nhost_asks = false")
    arguments = {"command": "git push"}
    facts = {"call_id": "c1", "tool": "bash", "arguments": arguments, "can_ask": True}

    told = place.tell("pi", "tool_call", {"session_id": "s1", "folder": "/", **facts})

    (question,) = place.questions(host="pi")
    assert question.id in told["block"]


def test_a_hook_may_wait_for_the_answer(place):
    place.named(f"{POLICY}[approvals]\nwait = 60")

    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(place.call, "git push")
        while not (place.store.exists() and place.questions()):
            pass
        place.answer(approve=True)
        told = calling.result()

    assert told == {}
    assert [each.state for each in place.questions()] == ["taken"]


def test_a_question_about_a_prompt_waits(place):
    place.named(
        LOCAL.format("Careful"),
        """
        from toolbus import Ask
        class Careful(AgentComponent):
            @guard(events.RUN_BEFORE)
            def judge(self, ctx): return Ask("deploy?") if "deploy" in ctx.value.text else None
        """,
    )

    refused = place.gemini("BeforeAgent", prompt="deploy it")
    place.answer(approve=True)
    passed = place.gemini("BeforeAgent", prompt="deploy it")
    again = place.gemini("BeforeAgent", prompt="deploy it")

    first, second = place.questions()
    assert (first.tool, first.arguments["prompt"]) == ("", "deploy it")
    assert (first.state, second.state) == ("done", "pending")
    assert first.id in refused["reason"]
    assert second.id in again["reason"]
    assert passed == {}


def contradictions(facts, mode):
    """Return what is wrong about a kill; nothing, if all is well."""
    then, end, told = facts["then"], facts["finally"], facts["told"]
    states = end["states"]
    yeses = {"taken", "done", "unknown"}
    checks = {
        "it ran though it was not taken": then["runs"] == 0 or then["states"][0] in yeses,
        "it did not run though it is done": then["states"] != ["done"] or then["runs"] == 1,
        "it ran twice by a yes": states.count("done") <= end["runs"]
        and end["runs"] <= sum(state in yeses for state in states),
        "a yes is lost": then["states"] != ["approved"] or states == ["done"],
        "a no is none": (told == "no") == (mode == "deny"),
        "a question has no end": {*states} <= {"done", "unknown", "denied"},
        "it did not run in the end": told != "pushed" or states[-1] == "done",
        "a repeated call says nothing of the first": end["told"]
        == ["unknown" in states[:number] for number in range(len(states))],
    }
    return [name for name, holds in checks.items() if not holds]


@pytest.mark.full
@pytest.mark.parametrize("mode", ["approve", "deny"])
def test_a_killed_hook_lets_nothing_run_twice(killed_on_sqlite, mode):
    kills = killed_on_sqlite.kills("kill_hook.py", mode)

    steps = {facts["step"] for facts in kills}
    assert {"before swap_state", "after swap_state"} <= steps
    assert {"before append_once", "after append_once"} <= steps
    assert {"before push", "after push"} <= steps or mode == "deny"
    assert {state for facts in kills for state in facts["then"]["states"]} >= (
        {"pending", "denied"} if mode == "deny" else {"pending", "approved", "taken", "done"}
    )
    assert [(facts, flaws) for facts in kills if (flaws := contradictions(facts, mode))] == []


@pytest.mark.full
def test_a_killed_worker_s_event_is_judged_once_more(killed_on_sqlite):
    kills = killed_on_sqlite.kills("kill_hook.py", "again")

    once = {"states": ["done"], "told": [False], "runs": 1}
    assert [facts for facts in kills if facts["then"] != once or facts["finally"] != once] == []


def pi_call(place, command="git push", number=1):
    """Tell that pi is about to run a command, with a person at its screen."""
    facts = {"tool": "bash", "arguments": {"command": command}, "can_ask": True}
    return pi(place, "tool_call", call_id=f"c{number}", **facts)


def pi(place, event, **facts):
    return place.tell("pi", event, {"session_id": "s1", "folder": "/", **facts})


def pi_result(place, number=1):
    facts = {"tool": "bash", "arguments": {"command": "git push"}}
    pi(place, "tool_result", call_id=f"c{number}", result=[], is_error=False, **facts)


def test_the_host_s_own_question_is_recorded(place):
    place.named(POLICY)
    told = [pi_call(place, number=number) for number in (1, 2)]
    states = [[each.state for each in place.questions(host="pi")]]

    pi_result(place, 1)
    pi(place, "input", text="and now?")
    states.append([each.state for each in place.questions(host="pi")])
    pi_result(place, 2)

    questions = place.questions(host="pi")
    assert all("it leaves this machine" in each["ask"] for each in told)
    assert states == [["hosted", "hosted"], ["done", "unheard"]]
    assert [each.state for each in questions] == ["done", "done"]
    assert {(each.answered_by, each.taken_by, each.grant) for each in questions} == {("", "", "")}


def test_the_host_s_answer_never_approves_here(place):
    place.named(POLICY)
    pi_call(place)
    (asked,) = place.questions(host="pi")

    async def give(store):
        words = {"approve": True, "by": "ann"}
        return await answer_question(store, asked.id, asked.digest, **words)

    answers = [place.in_store(give)]
    pi_result(place)
    answers.append(place.in_store(give))
    again = pi_call(place, number=2)
    place.named(f"{POLICY}[approvals]\nhost_asks = false")
    denied = pi_call(place, number=3)

    first, second, ours = place.questions(host="pi")
    assert [each.status for each in answers] == ["asked_elsewhere"] * 2
    assert "it leaves this machine" in again["ask"]
    assert ours.id in denied["block"]
    assert [each.state for each in (first, second, ours)] == ["done", "hosted", "pending"]


def test_a_grant_spares_the_host_s_question(place):
    rule = 'name = "tags"\nverdict = "ask"\ncommand = "git tag"\nreason = "it is for ever"\n'
    place.named(f"{POLICY}[[component.settings.rule]]\n{rule}")
    pi_call(place)
    (asked,) = place.questions(host="pi")

    async def give(store):
        words = {"approve": True, "by": "ann", "grant": "session"}
        return await answer_question(store, asked.id, asked.digest, **words)

    async def take_back(store):
        return await revoke_grant(store, made.grant.session_id, made.grant.id, by="ann")

    made = place.in_store(give)
    alike = pi_call(place, "git push --force", 2)
    other = pi_call(place, "git tag v1", 3)
    place.in_store(take_back)
    again = pi_call(place, "git push --force", 4)

    first, granted, *rest = place.questions(host="pi")
    assert (made.status, first.state, alike) == ("granted", "hosted", {})
    assert (granted.state, granted.grant, granted.answered_by) == ("taken", made.grant.id, "ann")
    assert "it is for ever" in other["ask"]
    assert "it leaves this machine" in again["ask"]
    assert [each.state for each in rest] == ["hosted", "hosted"]


SKIP = """
[[component]]
use = "policy"
[component.settings]
default = "allow"
project = "session"
tools = { Bash = { command = "command" }, bash = { command = "command" } }
[[component.settings.rule]]
name = "reading"
verdict = "allow"
effects = ["read"]
prompt = "skip"
[[component.settings.rule]]
name = "keys"
verdict = "ask"
touches = ["*.key"]
"""
READS = ["ls", "cat src/a.py | head -3", "cd src && grep -rn x a.py", "git log --oneline -5"]
NO_PROOF = [
    *("ls ..", "cat /etc/passwd", "cat ~/.bashrc", "echo $HOME", "cat $(echo src/a.py)", "env"),
    *("rm src/a.py", "sort -o b src/a.py", "GIT_DIR=/x git log", "git -C /tmp log", "cat out/x"),
    *("cat src/a.py > b", "ls && python3 x.py", "curl localhost", "diff -r src --to-file=/etc"),
]


def claude_call(place, command, session="s1", number=1):
    call = {"tool_use_id": f"c{number}", "tool_name": "Bash", "tool_input": {"command": command}}
    payload = {"session_id": session, "cwd": str(place.project), **call}
    told = place.tell("claude-code", "PreToolUse", payload)
    return told.get("hookSpecificOutput", {}).get("permissionDecision")


def copilot_call(place, command):
    call = {"toolName": "bash", "toolArgs": {"command": command}}
    payload = {"sessionId": "s2", "cwd": str(place.project), **call}
    return place.tell("copilot", "preToolUse", payload).get("permissionDecision")


def test_reading_inside_the_project_needs_no_prompt(place):
    place.write(place.own, SKIP)
    (place.project / "src").mkdir()
    (place.project / "src/a.py").write_text("x = 1\n")
    (place.project / "out").symlink_to("/etc")

    inside = [(claude_call(place, line), copilot_call(place, line)) for line in READS]
    outside = [(claude_call(place, line), copilot_call(place, line)) for line in NO_PROOF]
    asked = claude_call(place, "cat my.key"), copilot_call(place, "cat my.key")

    assert inside == [("allow", "allow")] * len(READS)
    assert set(outside) <= {(None, None), ("ask", "ask")}
    assert asked == ("ask", "ask")


def test_a_project_s_rule_skips_no_prompt(place):
    place.write(place.project, SKIP)
    main(["trust"])

    alone = claude_call(place, "ls")
    place.write(place.own, REDACTION)
    behind = claude_call(place, "ls", session="s2")
    place.write(place.own, REDACTION + SKIP)
    own = claude_call(place, "ls", session="s3")

    assert (alone, behind, own) == (None, None, "allow")


def test_after_a_failure_the_host_asks_again(place):
    failing = """
        class Failing(AgentComponent):
            @on(events.TOOL_CALL_BEFORE)
            def look(self, ctx):
                if ctx.value.arguments["command"] == "ls src":
                    raise ValueError("broken")
    """
    place.write(place.own, SKIP + LOCAL.format("Failing"), failing)
    (place.project / "src").mkdir()

    told = [
        claude_call(place, line, session, number)
        for number, (line, session) in enumerate(
            [("ls", "s1"), ("ls src", "s1"), ("ls", "s1"), ("ls", "s2")]
        )
    ]

    assert told == ["allow", None, None, "allow"]


def test_a_secret_in_a_result_is_replaced(place):
    place.named(POLICY + REDACTION)
    place.call("cat .env")

    told = place.result(f"GITHUB_TOKEN={SECRET}\n", "cat .env")

    assert told["decision"] == "deny"
    assert "[github-pat-" in told["reason"]
    assert SECRET not in json.dumps(told)
    assert SECRET.encode() not in place.stored()


def test_a_secret_keeps_its_name_over_hooks(place):
    place.named(REDACTION)
    secrets = [SECRET, f"{SECRET[:-1]}z"] * 2

    told = [place.result(f"token: {secret}") for secret in secrets]

    names = [re.search(r"\[github-pat-[a-z2-7]{16}\]", json.dumps(each))[0] for each in told]
    assert names[:2] == names[2:]
    assert names[0] != names[1]


def test_reasons_quote_no_secret(place):
    place.named(POLICY + REDACTION)
    arguments = {"command": f"git push https://x:{SECRET}@example.com/a"}
    facts = {"call_id": "c1", "tool": "bash", "arguments": arguments, "can_ask": True}

    denied = place.call(f"rm -rf {SECRET}")
    asked = place.tell("pi", "tool_call", {"session_id": "s1", "folder": "/", **facts})

    assert "nothing is removed here" in denied["reason"]
    assert "it leaves this machine" in asked["ask"]
    assert SECRET not in json.dumps([denied, asked])
    assert SECRET.encode() not in place.stored()


def test_a_secret_in_a_failure_is_replaced(place):
    place.named(REDACTION)
    shell = {"tool_name": "run_shell_command", "tool_input": {"command": "x"}}
    error = {"message": f"no access with {SECRET}", "type": "shell"}

    told = place.gemini("AfterTool", tool_response={"llmContent": "", "error": error}, **shell)

    assert "[github-pat-" in told["reason"]
    assert SECRET not in json.dumps(told)


def test_a_result_that_nobody_changes_stays(place):
    place.named(POLICY + REDACTION)
    place.call("ls")

    assert place.result("README.md\n") == {}


def test_an_undeliverable_redaction_is_recorded(place):
    place.named(REDACTION)
    call = {"tool_use_id": "c1", "tool_name": "Shell", "tool_input": {"command": "x"}}
    facts = {"conversation_id": "s1", "cwd": "/", "error_message": f"no access with {SECRET}"}

    place.tell("cursor", "postToolUseFailure", {**facts, **call, "failure_type": "error"})

    reasons = [record.get("reason") or "" for record in place.records()]
    assert any("the model reads the original" in reason for reason in reasons)
    assert SECRET.encode() not in place.stored()


def test_a_prompt_can_be_refused(place):
    place.named(
        LOCAL.format("Quiet"),
        """
        class Quiet(AgentComponent):
            @guard(events.RUN_BEFORE)
            def judge(self, ctx): return Deny("not now") if "deploy" in ctx.value.text else None
        """,
    )

    refused = place.gemini("BeforeAgent", prompt="deploy it")
    accepted = place.gemini("BeforeAgent", prompt="read it")

    assert refused == {"decision": "deny", "reason": "not now"}
    assert accepted == {}


def test_enqueued_text_is_context(place):
    place.named(
        LOCAL.format("Hints"),
        """
        class Hints(AgentComponent):
            @on(events.MESSAGE_APPEND_BEFORE, roles="tool")
            def hint(self, ctx): self.host.enqueue("use uv here")
        """,
    )
    place.call("pip install x")

    told = place.result("installed", "pip install x")

    assert told["hookSpecificOutput"]["additionalContext"] == "use uv here"


def test_context_waits_for_an_event_with_context(place):
    place.named(
        LOCAL.format("Hints"),
        """
        class Hints(AgentComponent):
            @on(events.TOOL_CALL_BEFORE)
            def hint(self, ctx): self.host.enqueue("use uv here")
        """,
    )

    assert place.call("ls") == {}
    told = place.result("README.md")

    assert told["hookSpecificOutput"]["additionalContext"] == "use uv here"


def test_garbage_is_blocked(place):
    inputs = [b"", b'{"session_id"', b"no", b"[]", b"\xff", b'{"session_id": 1}', b"[" * 100_000]

    told = [place.tell("gemini-cli", "BeforeTool", data) for data in inputs]
    done = place.command("gemini-cli", "BeforeTool", data=b"no")

    assert [each["decision"] for each in told] == ["deny"] * len(inputs)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["decision"] == "deny"


def test_a_misspelt_event_is_blocked(place):
    place.named(LOCAL.format("Plain"), "class Plain(AgentComponent): ...")
    facts = {"session_id": "s1", "cwd": "/", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    environment = HookSettings(config=place.config, store=place.store, limit=20.0)

    def told(name, event, **more):
        data = json.dumps({**facts, "hook_event_name": event, **more}).encode()
        made = answer("claude-code", name, data, environment)
        return made.exit_code, made.stdout, made.stderr.decode()

    misspelt = told("PreToolUs", "PreToolUse", tool_use_id="t1")

    said = "the hook is set up for 'PreToolUs', but the event is 'PreToolUse'; correct its"
    assert misspelt[:2] == (2, b"")
    assert said in misspelt[2]
    assert told("PreToolUs", "PreToolUse") == misspelt  # Whatever else is wrong with it.
    assert told("PreCompact", "PreCompact") == (0, b"", "")
    assert told("SessionEnd", "sessionEnd") == (0, b"", "")


def test_a_broken_component_is_blocked(place):
    place.named(LOCAL.format("Broken"), f"print({SECRET!r}); raise ValueError({SECRET!r})")
    unimportable = place.call()
    place.named(
        LOCAL.format("Broken"),
        f"""
        class Broken(AgentComponent):
            @guard(events.TOOL_CALL_BEFORE)
            def judge(self, ctx):
                print({SECRET!r})
                raise ValueError({SECRET!r})
        """,
    )
    payload = {"session_id": "s1", "cwd": "/", "tool_name": "x", "tool_input": {}}

    done = place.command(
        "gemini-cli", "BeforeTool", "--config", place.config, data=json.dumps(payload).encode()
    )

    assert unimportable["decision"] == json.loads(done.stdout)["decision"] == "deny"
    assert SECRET not in json.dumps(unimportable)
    assert SECRET.encode() not in done.stdout + done.stderr + place.stored()


def test_a_missing_configuration_is_blocked(place):
    place.config = str(place.own / "missing.toml")
    missing = place.call()
    place.named("[[component")

    broken = place.call()

    assert missing["decision"] == broken["decision"] == "deny"


@pytest.mark.full
def test_a_handler_without_end_is_blocked(place):
    place.named(
        LOCAL.format("Endless"),
        """
        class Endless(AgentComponent):
            @guard(events.TOOL_CALL_BEFORE)
            def judge(self, ctx):
                while True: pass
        """,
    )
    payload = {"session_id": "s1", "cwd": "/", "tool_name": "x", "tool_input": {}}
    words = ("gemini-cli", "BeforeTool", "--config", place.config, "--limit", "0.5")

    done = place.command(*words, data=json.dumps(payload).encode())

    assert "timed out" in json.loads(done.stdout)["reason"]


def test_a_store_that_cannot_be_written_blocks(place, monkeypatch):
    place.named(REDACTION)
    assert place.call() == {}
    connect = sqlite3.connect

    def full(*words, **options):
        made = connect(*words, **options)
        made.execute("PRAGMA max_page_count = 1")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", full)
        on_full_disk = [place.call("ls " + "x" * 20_000) for _ in range(2)]
    place.store.write_bytes(b"")
    place.store.unlink()
    place.store.mkdir()
    no_file = place.call()

    assert [each["decision"] for each in (*on_full_disk, no_file)] == ["deny"] * 3
    assert "full" in on_full_disk[0]["reason"]


def test_another_folder_is_no_way_out(place, tmp_path):
    place.write(place.project, LOCAL.format("Never"), NEVER)
    main(["trust"])

    began = place.call()
    elsewhere = place.call(folder=tmp_path)
    other_session = place.call(folder=tmp_path, session="s2")

    assert began["reason"] == elsewhere["reason"] == "never, by my own guard"
    assert other_session == {}


def test_a_changed_configuration_closes(place):
    file = place.write(place.project, LOCAL.format("Never"), NEVER)
    main(["trust"])
    place.call()

    (place.project / "rules.py").write_text(IMPORTS)
    changed = place.call()
    file.unlink()
    deleted = place.call()
    place.write(place.project, LOCAL.format("Never"), NEVER.replace("never", "not again"))
    main(["trust"])
    trusted = place.call()

    assert "toolbus trust" in changed["reason"]
    assert "toolbus trust --revoke" in deleted["reason"]
    assert trusted["reason"] == "not again, by my own guard"


def test_a_missing_configuration_blocks(place):
    file = place.write(place.project, LOCAL.format("Never"), NEVER)
    main(["trust"])
    place.call()
    file.rename(place.project / "aside.toml")

    replacements = (
        lambda: None,
        lambda: file.symlink_to("aside.toml"),
        lambda: file.symlink_to("/dev/zero"),
        lambda: file.symlink_to("nowhere"),
        lambda: os.mkfifo(file),
    )
    told = []
    for replace in replacements:
        replace()
        told += [place.call(), place.call(session="another")]
        file.unlink(missing_ok=True)
    place.store.unlink()
    told.append(place.call())
    (place.project / "pyproject.toml").write_text("[tool.toolbus]\n")
    told.append(place.call())

    file.symlink_to("nowhere")
    code = main(["trust", "--revoke", str(file)])

    assert all("toolbus trust --revoke" in each.get("reason", "") for each in told)
    assert (code, place.call(session="without")) == (0, {})


def test_a_foreign_repository_s_files_are_ignored(place):
    place.write(place.own, LOCAL.format("Never"), NEVER)
    mark = place.project / "ran"
    hostile = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n"
    place.write(place.project, LOCAL.format("Never"), hostile)
    for name in ("msgspec.py", "toolbus.py", "sitecustomize.py", "json.py"):
        (place.project / name).write_text(hostile)
    shell = {"tool_name": "run_shell_command", "tool_input": {"command": "ls"}}
    payload = {"session_id": "s1", "cwd": str(place.project), **shell}
    program = "from toolbus.cli import main; main()"
    words = ("hook", "gemini-cli", "BeforeTool", "--store", str(place.store))

    told = place.call()
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *words],
        input=json.dumps(payload).encode(),
        capture_output=True,
        check=False,
    )

    assert told["reason"] == json.loads(done.stdout)["reason"] == "never, by my own guard"
    assert not mark.exists()


def test_commands_read_the_hooks_store(place, capsys, tmp_path):
    place.named(REDACTION)
    place.gemini("BeforeAgent", prompt="show me the settings")
    place.call("cat .env")
    place.result(f"GITHUB_TOKEN={SECRET}\n", "cat .env")
    place.gemini("AfterAgent", prompt_response="there is a token in it")
    store, file = str(place.store), str(tmp_path / "all.jsonl")

    codes = [main(["sessions", store]), main(["show", store, "gemini-cli:s1"])]
    shown = capsys.readouterr().out
    (call_id,) = sqlite3.connect(store).execute("SELECT DISTINCT id FROM calls").fetchone()
    codes += [main(["explain", store, "--call", call_id])]
    explained = capsys.readouterr().out
    codes += [main(["export", store, "-o", file])]
    codes += [main(["replay", file, "--with", place.config])]
    replayed = capsys.readouterr().out

    assert codes == [0] * 5, replayed
    for text in (
        "show me the settings",
        "run_shell_command",
        "[github-pat-",
        "there is a token in it",
    ):
        assert text in shown
    assert "RedactSecrets" in explained
    assert "nothing would change" in replayed
    assert SECRET not in Path(file).read_text() + shown + explained + replayed


@pytest.mark.full
def test_events_at_once_are_all_kept(place):
    place.named(POLICY + REDACTION)
    calls = [{"call_id": f"c{number % 19}"} for number in range(20)]
    facts = {"session_id": "s1", "folder": "/", "tool": "bash", "arguments": {"command": "rm x"}}
    words = ("pi", "tool_call", "--config", place.config)

    with ThreadPoolExecutor(8) as pool:
        done = list(
            pool.map(
                lambda call: place.command(*words, data=json.dumps({**facts, **call}).encode()),
                calls,
            )
        )

    assert all("nothing is removed here" in json.loads(each.stdout)["block"] for each in done)
    rows = sqlite3.connect(place.store).execute("SELECT id FROM messages").fetchall()
    assert len(rows) == len(set(rows)) == 38
    assert main(["check", str(place.store)]) == 0
    assert place.store.stat().st_mode & 0o777 == 0o600
