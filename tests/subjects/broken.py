"""Adapters, guards and other handlers that each break one law, for the kit to find."""

import os
import random
import re
import shlex
from itertools import count
from typing import NamedTuple
from uuid import uuid4

from msgspec.structs import force_setattr, replace

from toolbus import AgentComponent, Ask, Deny, ToolAdapter, ToolResponse, guard, tool
from toolbus.events import (
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_BEFORE,
    RUN_AFTER,
    RUN_BEFORE,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
)
from toolbus.messages import ToolMessage
from toolbus.testing.checks import check_adapter, check_guard, check_handler


@tool
def read_file(path: str) -> dict[str, str]:
    """Read a file."""
    return {"text": path}


class TakesFirstPart(ToolAdapter):
    async def adapt_response(self, response, call):
        return response.with_text(response.content[0].text)


class RefusesLongTexts(ToolAdapter):
    def adapt_response(self, response, call):
        if len(response.text) > 65_536:
            raise ValueError("too long")


class RequiresPath(ToolAdapter):
    def adapt_parameters(self, call):
        return call.merge_arguments({"path": call.arguments["path"].strip()})


class Explodes(ToolAdapter):
    """A pattern with nested repeats."""

    def adapt_response(self, response, call):
        return response.with_text("words") if re.match(r"(\w+\s?)*$", response.text) else None


class NeverEnds(ToolAdapter):
    """It looks for the end of an escape sequence that nobody ends."""

    def adapt_response(self, response, call):
        at = response.text.find("\x1b[")
        while at >= 0 and not response.text[at:].endswith("m"):
            at += 0


class ReturnsText(ToolAdapter):
    def adapt_response(self, response, call):
        return response.text


class ForgetsTheCall(ToolAdapter):
    def adapt_response(self, response, call):
        return ToolResponse.from_text(response.text)


class RenamesTheTool(ToolAdapter):
    def adapt_signature(self, spec):
        return replace(spec, name=f"safe_{spec.name}")


class NewCallIds(ToolAdapter):
    def adapt_parameters(self, call):
        return replace(call, id="mine")


class TakesAllTools(ToolAdapter):
    tools = ("read_*",)

    def should_adapt(self, tool_name):
        return True

    def adapt_response(self, response, call):
        return response.with_text("cut") if response.text else None


class Mutates(ToolAdapter):
    def adapt_response(self, response, call):
        force_setattr(response, "error_type", "mine")


class EmptiesArguments(ToolAdapter):
    def adapt_parameters(self, call):
        dict.clear(call.arguments)


class CountsCalls(ToolAdapter):
    def __init__(self):
        self.numbers = count(1)

    def adapt_response(self, response, call):
        return response.with_text(f"[{next(self.numbers)}] {response.text}")


class StampsAnId(ToolAdapter):
    def adapt_response(self, response, call):
        return replace(response, metadata={"trace": str(uuid4())})


class CountsTexts(ToolAdapter):
    """Each twice in a row gives the same; what came in between shows."""

    def __init__(self):
        self.seen = set()

    def adapt_response(self, response, call):
        self.seen.add(response.text)
        return response.with_text(f"one of {len(self.seen)}") if len(self.seen) > 1 else None


class SaysItAgain(ToolAdapter):
    def adapt_response(self, response, call):
        return response.with_text(f"{response.text}!")


class UnsoundSchema(ToolAdapter):
    def adapt_signature(self, spec):
        return replace(spec, input_schema={"type": "objekt"})


class HalfRename(ToolAdapter):
    """It tells the model of another parameter, and forgets to translate it back."""

    def adapt_signature(self, spec):
        schema = dict(spec.input_schema)
        known = dict(schema["properties"])
        schema["properties"] = {"file": known.pop("path"), **known}
        schema["required"] = ["file"]
        return replace(spec, input_schema=schema)


class Shouts(ToolAdapter):
    def adapt_response(self, response, call):
        return response.map_text(str.upper)


class Seeds(ToolAdapter):
    def adapt_response(self, response, call):
        random.seed(response.text)
        return response.with_text(f"{random.random()}")


def rewriting_guard(ctx):
    ctx.output = ctx.value.merge_arguments({"safe": True})


def silent_guard(ctx):
    return Deny("") if ctx.value.arguments else None


def asking_guard(ctx):
    return Ask("may this be said?") if ctx.value.text else None


def annotated_guard(ctx):
    return Deny("read only") if not ctx.tool.annotations.get("readOnlyHint") else None


def yes_no_guard(ctx):
    return "rm" not in str(ctx.value.arguments)


def path_guard(ctx):
    return Deny("no") if ctx.value.arguments["path"].startswith("/") else None


class ThirdTime:
    calls = 0

    async def __call__(self, ctx):
        self.calls += 1
        return Deny("too often") if self.calls % 3 == 0 else None


class Quota:
    def __init__(self):
        self.seen = set()

    def __call__(self, ctx):
        self.seen.add(ctx.value)
        return Deny(f"{len(self.seen)} calls already") if len(self.seen) > 1 else None


def split_guard(ctx):
    command = shlex.split(ctx.value.arguments.get("command", ""))
    return Deny("no") if command[:1] == ["rm"] else None


def nested_guard(ctx):
    options = ctx.value.arguments.get("options")
    if isinstance(options, dict) and "paths" in options:
        return Deny("no") if options["paths"][0] == "/" else None
    return None


def writing_guard(ctx):
    if ctx.value.name in {"write_file", "delete_file"}:
        return Deny("no") if ctx.value.arguments["path"] == "/" else None
    return None


class NeverAsked(AgentComponent):
    @guard(TOOL_CALL_BEFORE, when=lambda ctx: ctx.value.name == "write_file")
    def judge(self, ctx):
        return Deny("no")


def marking_guard(ctx):
    os.environ["LAST_PROMPT"] = ctx.value.prompt[:20].replace("\0", "")


class Careless(AgentComponent):
    @guard(MODEL_CALL_BEFORE)
    def short(self, ctx):
        return Deny("too long") if len(ctx.value.messages[0].text) > 100 else None


def other_id(ctx):
    return replace(ctx.value, id="other")


def cut_all(ctx):
    message = ctx.value
    if isinstance(message, ToolMessage):
        return None
    return replace(message, content=message.text[:20])


def wrong_arguments(ctx):
    return ctx.value.merge_arguments({"path": 3})


def reorder(ctx):
    return list(ctx.value)


def chatty_observer(ctx):
    return ctx.value.text


class Broken(NamedTuple):
    """What breaks a law, the law, and how it is checked."""

    name: str
    law: str
    check: object
    subject: object
    options: dict


def _broken(law, check, subject, *event, **options):
    name = getattr(subject, "__name__", type(subject).__name__)
    return Broken(name, law, lambda one, **given: check(*event, one, **given), subject, options)


BROKEN = [
    _broken("raises-nothing", check_adapter, TakesFirstPart()),
    _broken("raises-nothing", check_adapter, RefusesLongTexts()),
    _broken("raises-nothing", check_adapter, RequiresPath(), tools=[read_file]),
    _broken("ends", check_adapter, Explodes(), limit=0.5),
    _broken("ends", check_adapter, NeverEnds(), limit=0.5),
    _broken("right-type", check_adapter, ReturnsText()),
    _broken("keeps-identity", check_adapter, ForgetsTheCall()),
    _broken("keeps-identity", check_adapter, RenamesTheTool()),
    _broken("keeps-identity", check_adapter, NewCallIds()),
    _broken("leaves-others-alone", check_adapter, TakesAllTools()),
    _broken("changes-nothing-given", check_adapter, Mutates()),
    _broken("changes-nothing-given", check_adapter, EmptiesArguments()),
    _broken("repeatable", check_adapter, CountsCalls()),
    _broken("repeatable", check_adapter, StampsAnId()),
    _broken("repeatable", check_adapter, CountsTexts(), examples=500),
    _broken("idempotent", check_adapter, SaysItAgain(), idempotent=True),
    _broken("valid-schema", check_adapter, UnsoundSchema()),
    _broken("arguments-fit", check_adapter, HalfRename(), tools=[read_file]),
    _broken("result-fits", check_adapter, Shouts(), examples=500),
    _broken("touches-no-globals", check_adapter, Seeds()),
    _broken("judges-only", check_guard, rewriting_guard),
    _broken("says-why", check_guard, silent_guard),
    _broken("right-type", check_guard, asking_guard, MESSAGE_APPEND_BEFORE),
    _broken("right-type", check_guard, yes_no_guard),
    _broken("raises-nothing", check_guard, path_guard),
    _broken("raises-nothing", check_guard, annotated_guard),
    _broken("raises-nothing", check_guard, split_guard),
    _broken("raises-nothing", check_guard, nested_guard),
    _broken("is-reached", check_guard, writing_guard),
    _broken("is-reached", check_guard, NeverAsked()),
    _broken("repeatable", check_guard, ThirdTime()),
    _broken("repeatable", check_guard, Quota()),
    _broken("touches-no-globals", check_guard, marking_guard, RUN_BEFORE),
    _broken("raises-nothing", check_guard, Careless()),
    _broken("keeps-identity", check_handler, other_id, MESSAGE_APPEND_BEFORE),
    _broken("leaves-others-alone", check_handler, cut_all, MESSAGE_APPEND_BEFORE, roles=["tool"]),
    _broken("arguments-fit", check_handler, wrong_arguments, TOOL_CALL_BEFORE, tools=[read_file]),
    _broken("right-type", check_handler, reorder, TOOLS_PROVIDE),
    _broken("right-type", check_handler, chatty_observer, RUN_AFTER),
]
