"""The components that every coding agent gets in the tests with real programs, of one file."""

import os
import signal
import time
from pathlib import Path

from toolbus import AgentComponent, ToolAdapter, events, guard, on


def command_of(call):
    """Return the command line of *call*, "" if it is none of a shell."""
    return str(call.arguments.get("command", ""))


class Rewrites(AgentComponent):
    """Puts *word* behind the command line of calls that ask for it."""

    def __init__(self, word: str):
        super().__init__()
        self.word = word

    @on(events.TOOL_CALL_BEFORE)
    def rewrite(self, ctx):
        line = command_of(ctx.value)
        if line.startswith("echo rewrite"):
            return ctx.value.merge_arguments({"command": f"{line} {self.word}"})
        return None


class Context(AgentComponent):
    """Tells the model a word beside the results of calls that ask for it."""

    @on(events.TOOL_CALL_AFTER)
    def add(self, ctx):
        if "context please" in command_of(ctx.value.requested):
            self.host.enqueue("the house's context is cobalt")


class Observes(AgentComponent):
    """Appends what it saw of calls to *file*."""

    def __init__(self, file: Path):
        super().__init__()
        self.file = file

    @on(events.TOOL_CALL_BEFORE)
    def before(self, ctx):
        self._write("before", ctx.value)

    @on(events.TOOL_CALL_AFTER)
    def after(self, ctx):
        self._write("after", ctx.value.requested)

    def _write(self, when, call):
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(f"{when} {command_of(call)}\n")


class BrokenGuard(AgentComponent):
    """Raises where it should judge a call that says "break the guard"."""

    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx):
        if "break the guard" in command_of(ctx.value):
            raise RuntimeError("the guard is broken")


class BrokenAdapter(AgentComponent):
    """Raises where it should read a result of a call that says "break the adapter"."""

    def __init__(self):
        super().__init__()
        self.register_tool_adapter(_Raising())


class _Raising(ToolAdapter):
    def adapt_response(self, response, call):
        if "break the adapter" in command_of(call):
            raise RuntimeError("the adapter is broken")
        return response


class Dies(AgentComponent):
    """Kills the process that judges a call that says "die", once: then *file* is there."""

    def __init__(self, file: Path):
        super().__init__()
        self.file = file

    @on(events.TOOL_CALL_BEFORE)
    def die(self, ctx):
        if "die" in command_of(ctx.value) and not self.file.exists():
            self.file.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class Sleeps(AgentComponent):
    """Takes longer than it may for a call that says "sleep well"."""

    @on(events.TOOL_CALL_BEFORE)
    def sleep(self, ctx):
        if "sleep well" in command_of(ctx.value):
            time.sleep(30)  # Whoever waits for it has a limit, which is what is tested.
