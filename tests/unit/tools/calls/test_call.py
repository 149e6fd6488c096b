"""A call whose tool runs elsewhere: judged up to there, and gone on with where its result is."""

import pytest

from toolbus.bus.bus import EventBus
from toolbus.events.catalogue import (
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    Ask,
    Deny,
    Retry,
)
from toolbus.messages.records import ToolCall, ToolResponse
from toolbus.tools.calls.call import CallInProgress
from toolbus.tools.calls.runner import ToolRunner
from toolbus.tools.toolset import Toolset

CALL = ToolCall(id="c1", name="elsewhere", arguments={"a": 1})


class Ends(list):
    """The runner of a bus, and what `TOOL_CALL_AFTER` tells of."""

    def __init__(self, approver=None):
        super().__init__()
        self.bus = EventBus()
        self.bus.on(TOOL_CALL_AFTER, lambda ctx: self.append(ctx.value.status))
        self.runner = ToolRunner(self.bus, Toolset(), approver=approver)


async def test_a_judged_call_stops_where_its_tool_would_run():
    ends = Ends()
    ends.bus.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.merge_arguments({"a": 2}))

    judged = await ends.runner.judge(CALL)

    assert (judged.has_ended, judged.question, judged.call.arguments["a"]) == (False, None, 2)
    assert ends == []


async def test_a_denied_call_has_ended_and_is_finished_once():
    ends = Ends()
    ends.bus.guard(TOOL_CALL_BEFORE, lambda ctx: Deny("no"))

    judged = await ends.runner.judge(CALL)
    outcome = await ends.runner.finish(judged)

    assert (judged.has_ended, outcome.status, outcome.response.text) == (True, "denied", "no")
    assert ends == ["denied"]


async def test_a_question_is_left_to_who_asks_there():
    ends = Ends(lambda ask, call, scope: pytest.fail("it is asked elsewhere"))
    ends.bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("sure?"))

    judged = await ends.runner.judge(CALL, asks=True)

    assert (judged.has_ended, judged.question) == (False, Ask("sure?"))


@pytest.mark.parametrize("approves", [True, False])
async def test_a_question_is_put_to_the_approver_where_nobody_asks(approves):
    ends = Ends(lambda ask, call, scope: approves)
    ends.bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("sure?"))

    judged = await ends.runner.judge(CALL)

    assert (judged.has_ended, judged.question) == (not approves, None)


async def test_what_a_handler_answered_is_asked_about_here():
    ends = Ends(lambda ask, call, scope: True)
    ends.bus.on(TOOL_CALL_BEFORE, lambda ctx: ToolResponse.from_text("known"))
    ends.bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("sure?"))

    judged = await ends.runner.judge(CALL, asks=True)
    outcome = await ends.runner.finish(judged)

    assert (judged.has_ended, outcome.status, outcome.response.text) == (True, "answered", "known")


async def test_a_permitted_call_can_still_be_refused():
    ends = Ends()

    judged = await ends.runner.judge(CALL)
    judged.refuse("it cannot run there")
    outcome = await ends.runner.finish(judged)

    assert (outcome.status, outcome.executed) == ("denied", None)
    assert ends == ["denied"]


def resumed(runner, response, ran=CALL):
    call = CallInProgress(CALL, runner, None)
    call.resume(ran, response)
    return call


async def test_a_result_from_elsewhere_ends_the_call():
    ends, ran = Ends(), CALL.with_arguments({"a": 2})

    outcome = await ends.runner.finish(resumed(ends.runner, ToolResponse.from_text("done"), ran))

    assert (outcome.status, outcome.requested, outcome.executed) == ("ok", CALL, ran)
    assert outcome.response.parameters == {"a": 2}
    assert ends == ["ok"]


async def test_a_failure_from_elsewhere_is_shown_and_never_run_again():
    ends, failures = Ends(), []

    def failed(ctx):
        failures.append(ctx.value.error_text)
        return Retry()

    ends.bus.on(TOOL_CALL_ERROR, failed)
    response = ToolResponse.from_text("broken", is_error=True)

    outcome = await ends.runner.finish(resumed(ends.runner, response))

    assert (outcome.status, outcome.attempts, outcome.response.text) == ("error", 1, "broken")
    assert (failures, ends) == (["broken"], ["error"])


async def test_a_handler_may_give_what_stands_for_a_failure():
    ends = Ends()
    ends.bus.on(TOOL_CALL_ERROR, lambda ctx: ToolResponse.from_text("instead"))
    response = ToolResponse.from_text("broken", is_error=True)

    outcome = await ends.runner.finish(resumed(ends.runner, response))

    assert (outcome.status, outcome.response.text) == ("error", "instead")
