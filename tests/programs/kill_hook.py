"""A program whose hooks are killed at every step between a question and its effect.

`ADDRESS FOLDER MODE TIMES`: a host calls a tool, a person answers, it calls again, runs the tool
and tells the result; at each step the hook kills itself, so many times, or the host ends. Then the
host goes on, with new hooks. MODE is `approve`, `deny`, or `again`: what judges the call is a
worker, and its client has a killed one's event handled once more. It writes a line of JSON for each
kill: the step, what the store says then and how often the host ran the tool, and that at the end.
"""

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

from kill_steps import (
    Steps,
    address_of,
    clear,
    count_run,
    kill_at_each_step,
    load,
    loaded,
    run_child,
    runs_in,
    value_of,
)
from toolbus.approvals import answer
from toolbus.approvals.records import find_question, questions_of
from toolbus.cli import main as run_toolbus
from toolbus.hosts.run.event_answer import answer as answer_event
from toolbus.hosts.run.event_log import HookStore
from toolbus.hosts.run.requests import HookSettings
from toolbus.store.store_factory import open_store

POLICY = """
[[component]]
use = "policy"
[component.settings]
default = "allow"
[[component.settings.rule]]
name = "ask-first"
verdict = "ask"
command = "git push"
"""
SHELL = {"tool_name": "run_shell_command", "tool_input": {"command": "git push"}}
WAITS = re.compile(r"question (\S+) waits")


class Place(NamedTuple):
    """Where questions are kept, the file in which the host counts its runs, its session."""

    address: str
    effects: str
    name: str
    mode: str


class KilledError(Exception):
    """The step at which a hook was killed, or the host ended."""


class Host:
    """A session of Gemini CLI, in which a person answers; its end comes at step *limit*, 0: never.

    The hooks' steps are its own; with *again* one that was killed is called once more.
    """

    def __init__(self, place, limit=0):
        self._place, self._limit, self._count, self._event = place, limit, 0, 0
        self.killed_at = ""

    def _step(self, name):
        self._count += 1
        if self._count == self._limit:
            raise KilledError(name)

    def tell_hook(self, event, **payload):
        """Return what the host is told of its *event*."""
        payload = {"session_id": self._place.name, "cwd": str(Path.cwd()), **payload}
        self._event += 1
        facts = (event, json.dumps(payload).encode(), f"{self._place.name}-{self._event}")
        done = self._judge(*facts, max(0, self._limit - self._count))
        if done.is_killed:
            self._count, self.killed_at = self._limit, done.lines[-1]
            if self._place.mode != "again":
                raise KilledError(self.killed_at)
            done = self._judge(*facts, 0)
        assert done.code == 0, done
        self._count += sum(not line.startswith("{") for line in done.lines)
        return json.loads(next((line for line in done.lines if line.startswith("{")), "{}"))

    def _judge(self, event, data, event_id, limit):
        place = self._place

        def judge(tell):
            Steps(limit, tell).at_writes(HookStore)
            if place.mode == "again":
                tell(judged(place, event, data, event_id).decode())
                return
            with TemporaryFile() as file:
                file.write(data)
                file.seek(0)
                os.dup2(file.fileno(), 0)
                words = ("--config", "toolbus.toml", "--store", place.address)
                run_toolbus(["hook", "gemini-cli", event, *words])

        return run_child(judge)

    def call(self):
        """Call the tool, and run it if it may run; return what the host is told of it."""
        if reason := self.tell_hook("BeforeTool", **SHELL).get("reason"):
            return reason
        self._step("before push")
        count_run(self._place.effects, "push")
        self._step("after push")
        self.tell_hook("AfterTool", tool_response={"llmContent": "pushed"}, **SHELL)
        return "pushed"

    def call_until_answered(self):
        """Call, have a person answer what is asked; return what the host is told in the end."""
        for _ in range(3):
            if not (waits := WAITS.search(told := self.call())):
                return told
            self.have_answered(waits[1])
        return told

    def have_answered(self, question_id):
        """Have a person answer, in a process of its own."""
        value_of(answer_question, self._place, question_id)


class LaterHost(Host):
    """The same session, whose hooks, and the person, are this process, as a worker is."""

    def tell_hook(self, event, **payload):
        payload = {"session_id": self._place.name, "cwd": str(Path.cwd()), **payload}
        made = judged(self._place, event, json.dumps(payload).encode())
        return json.loads(made or "{}")

    def have_answered(self, question_id):
        asyncio.run(answer_question(self._place, question_id))


def judged(place, event, data, event_id=""):
    """Return the answer to an event of the host."""
    settings = HookSettings(config="toolbus.toml", store=Path(place.address))
    return answer_event("gemini-cli", event, data, settings, event_id).stdout


async def answer_question(place, question_id):
    store = open_store(place.address)
    question = await find_question(store, question_id)
    approve = place.mode != "deny"
    await answer(store, question_id, question.digest, approve=approve, by="ann", reason="no")
    await store.close()


async def look_up(place):
    """Return what the store says of the questions of *place*, and how often the tool ran."""
    store = open_store(place.address)
    questions = await questions_of(store, f"gemini-cli:{place.name}")
    await store.close()
    return {
        "states": [each.state for each in questions],
        "told": [each.may_have_run_ns > 0 for each in questions],
        "runs": len(runs_in(place.effects)),
    }


def go_on(place):
    """Return what is known after a kill, and again after its host has gone on."""
    facts, host = {"then": asyncio.run(look_up(place))}, LaterHost(place)
    # So that nothing of before runs any more.
    host.tell_hook("BeforeAgent", prompt="and now?")
    facts["told"] = host.call_until_answered() if place.mode != "again" else ""
    facts["finally"] = asyncio.run(look_up(place))
    return facts


def main(address, folder, mode, times):
    os.chdir(folder)
    Path("toolbus.toml").write_text(POLICY)

    def place_of(name):
        return Place(address_of(address, name), f"{folder}/{name}", name, mode)

    def kill(name, number):
        host = Host(place_of(name), number)
        try:
            host.call_until_answered()
        except KilledError as error:
            return str(error)
        return host.killed_at or None

    def go_on_with(names):
        places = [place_of(name) for name in names]
        known = run_child(lambda tell: tell(json.dumps([*map(go_on, places)]))).value
        clear(place.address for place in places)
        return known

    def load_all(tell):
        payload = {"session_id": "s", "cwd": str(Path.cwd()), **SHELL}
        judged(place_of("none"), "BeforeTool", json.dumps(payload).encode())
        tell(loaded())

    load(run_child(load_all).lines[-1])
    kill_at_each_step(kill, go_on_with, int(times))


if __name__ == "__main__":
    main(*sys.argv[1:])
