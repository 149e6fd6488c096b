"""A program whose proxy is killed at every step between a question and its effect.

`ADDRESS FOLDER MODE TIMES`: at each step a child that is a proxy kills itself, or its server kills
it, so many times; then its client calls again through another one. MODE is `approve` or `deny`. It
writes a line of JSON for each kill: the step, what `toolbus approvals` said then and how often the
server had run the tool, and the same at the end, with what the client read there.
"""

import io
import itertools
import json
import os
import re
import select
import sys
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kill_steps import (
    Steps,
    address_of,
    clear,
    kill_at_each_step,
    load,
    loaded,
    run_child,
    runs_in,
    say,
    start_child,
    store_class,
    value_of,
)
from toolbus.approvals import answer
from toolbus.approvals.records import find_question
from toolbus.cli import main as run_toolbus
from toolbus.store.store_factory import open_store

SECONDS = 60
"""More than anything takes on a machine that has other things to do as well."""

SERVER = """
import json, os, signal, sys
effects = sys.argv[1]
with open("death") as file:
    death = file.read()

def reach(step):
    if step == death:
        os.kill(os.getppid(), signal.SIGKILL)

for line in sys.stdin:
    frame = json.loads(line)
    result = {}
    if frame.get("method") == "tools/list":
        result = {"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}
    elif frame.get("method") == "tools/call":
        reach("before pay")
        with open(effects, "a") as file:
            file.write(frame["params"]["arguments"]["by"] + "\\n")
        reach("after pay")
        result = {"content": [{"type": "text", "text": "paid"}]}
    if "id" in frame:
        print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": result}), flush=True)
"""
GUARD = """
from toolbus import AgentComponent, Ask, events, guard
class Till(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx): return Ask("pay it?")
"""
CONFIGURATION = """
[[component]]
use = "./guard.py:Till"
[approvals]
max_hourly = 10_000
max_open = 10_000
"""
WAITS = re.compile(r"question (\S+) waits")


class Place(NamedTuple):
    """Where questions are kept, the file in which the server counts its runs, who pays."""

    address: str
    effects: str
    name: str
    mode: str


class Proxy:
    """A proxy in a child, killed at its step *limit* or at its server's *death*; its client."""

    def __init__(self, place, limit=0, death=""):
        inputs, outputs, errors, steps = (os.pipe() for _ in range(4))
        self._ids = itertools.count(1)

        def serve():
            # Whoever holds an end that is not its own keeps others from seeing that it is over.
            for end in (inputs[1], outputs[0], errors[0], steps[0]):
                os.close(end)
            for number, end in enumerate((inputs[0], outputs[1], errors[1])):
                os.dup2(end, number)
                os.close(end)
            tell = partial(say, file=steps[1])
            Steps(limit, tell).at_writes(store_class(place.address))
            # No word of the command: another command would be another session.
            Path("death").write_text(death)
            server = [sys.executable, "-I", "-S", "server.py", place.effects]
            words = ("--grace=1", "--approval-wait=0", "--config=toolbus.toml", "--session=work")
            run_toolbus(["proxy", *words, "--store", place.address, "--", *server])
            tell(loaded())

        self._child = start_child(serve)
        for end in (inputs[0], outputs[1], errors[1], steps[1]):
            os.close(end)
        self._input, self._output = os.fdopen(inputs[1], "wb", 0), os.fdopen(outputs[0], "rb")
        self._errors, self._steps = os.fdopen(errors[0], "rb"), os.fdopen(steps[0])
        self._ask("initialize", {"capabilities": {}})

    def _ask(self, method, params):
        """Return the result of a request; None from a proxy that was killed."""
        own = next(self._ids)
        frame = {"jsonrpc": "2.0", "id": own, "method": method, "params": params}
        with suppress(BrokenPipeError):
            self._input.write(json.dumps(frame).encode() + b"\n")
        while True:
            assert select.select([self._output], [], [], SECONDS)[0], method
            if not (line := self._output.readline()):
                return None
            if (frame := json.loads(line)).get("id") == own:
                return frame["result"]

    def pay(self, place):
        """Return the text of the result of a call; None from a proxy that was killed."""
        params = {"name": "pay", "arguments": {"by": place.name}}
        result = self._ask("tools/call", params)
        return None if result is None else result["content"][0]["text"]

    def end(self):
        """Wait until it and its server have ended; return whether it was killed, and what it said.

        That are its steps, and, if it was not killed, what it has loaded.
        """
        self._input.close()
        # The server holds the other end of this pipe as well.
        errors = self._errors.read()
        self._output.close()
        self._errors.close()
        code = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        with self._steps:
            lines = self._steps.read().splitlines()
        assert code in {0, -9}, errors
        return code == -9, lines


async def answer_question(place, question_id):
    store = open_store(place.address)
    question = await find_question(store, question_id)
    approve = place.mode == "approve"
    await answer(store, question_id, question.digest, approve=approve, by="ann", reason="no")
    await store.close()


def call_until_answered(proxy, place):
    """Call, and answer what is asked; return what the client reads in the end, None: a kill."""
    for _ in range(4):
        text = proxy.pay(place)
        if text is None or not (waits := WAITS.search(text)):
            return text
        value_of(answer_question, place, waits[1])
    return text


def look_up(places):
    """Return what a person sees of the questions of *places*, and how often the tool ran."""

    def work(tell):
        with redirect_stdout(io.StringIO()) as output:
            run_toolbus(["approvals", "--all", "--json", "--store", places[0].address])
        tell(output.getvalue())

    questions = [json.loads(line) for line in run_child(work).lines if line]
    questions.sort(key=lambda question: question["asked_ns"])
    known = []
    for place in places:
        mine = [each for each in questions if each["arguments"]["by"] == place.name]
        runs = runs_in(place.effects).count(place.name)
        told = [each["may_have_run_ns"] > 0 for each in mine]
        known.append({"states": [each["state"] for each in mine], "told": told, "runs": runs})
    return known


def go_on(places):
    """Return what is known after kills, and again after their calls were made once more."""
    known = [{"then": facts} for facts in look_up(places)]
    proxy = Proxy(places[0])
    for place, facts in zip(places, known, strict=True):
        facts["read"] = call_until_answered(proxy, place)
    proxy.end()
    for facts, after in zip(known, look_up(places), strict=True):
        facts["finally"] = after
    clear([places[0].address])
    return known


def main(address, folder, mode, times):
    os.chdir(folder)
    Path("server.py").write_text(SERVER)
    Path("guard.py").write_text(GUARD)
    Path("toolbus.toml").write_text(CONFIGURATION)

    def place_of(name):
        # One proxy goes on for all that were killed at one step.
        step = name.rpartition("-")[0]
        return Place(address_of(address, step), f"{folder}/effects", name, mode)

    def kill(name, number):
        # The numbers of the deaths by its server come before those of its own steps.
        death = {-1: "before pay", 0: "after pay"}.get(number, "")
        proxy = Proxy(place_of(name), max(0, number), death)
        call_until_answered(proxy, place_of(name))
        is_killed, lines = proxy.end()
        return (death or lines[-1]) if is_killed else None

    proxy = Proxy(place_of("none"))
    call_until_answered(proxy, place_of("none"))
    load(proxy.end()[1][-1])
    clear([place_of("none").address])
    first = -1 if mode == "approve" else 1
    kill_at_each_step(kill, lambda names: go_on([*map(place_of, names)]), int(times), first)


if __name__ == "__main__":
    main(*sys.argv[1:])
