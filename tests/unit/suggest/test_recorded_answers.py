"""Records of questions that hide, borrow or repeat an answer."""

import contextlib

import pytest
from tests.plugins.hooked_sessions import OWN, HookedCall, HookedSessions
from tests.plugins.made_sessions import FIRST_DAY, KeptStore, make_project

from toolbus import Agent, AssistantMessage, ToolCall, tool
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import questions_of
from toolbus.errors import FreezeError
from toolbus.models.scripted import ScriptedModel
from toolbus.policy import Policy
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.store.store_factory import open_reader
from toolbus.suggest.evidence import read_asked_calls
from toolbus.suggest.proof import JudgedCalls
from toolbus.suggest.proposals import propose
from toolbus.suggest.recordings import Recordings
from toolbus.testing.fakes import FakeClock


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path.resolve())


async def test_an_answer_under_a_borrowed_name_is_no_evidence(project):
    """A chat that calls itself a page has no code of a terminal."""
    store = KeptStore(clock=FakeClock(FIRST_DAY))
    await _record_by_api(store, project)

    with store.reader() as reader:
        (call,) = read_asked_calls(reader)

    assert call.unfit or call.answer != "yes"


async def test_a_call_with_a_used_id_hides_no_refusal(project):
    """The ids of calls are a model's or a client's own."""
    refused = [HookedCall(OWN, "x", approve=False), HookedCall("gh pr checks", "x")]
    usual = [HookedCall(OWN)]
    hooked = HookedSessions(project)
    file = await hooked.record([usual, refused, usual, usual, usual, usual])

    with open_reader(file) as reader:
        policy = PolicyFile(project / "policy.toml")
        suggested = propose(Recordings([reader], policy).older, policy).proposals

    assert [dict(each.rule) for each in suggested] == []


async def test_a_repeated_call_is_one_question(project):
    """A coding agent makes a denied call again to learn the answer to its question."""
    hooked = HookedSessions(project)
    file = await hooked.record([[HookedCall(OWN)]] * 3)

    with open_reader(file) as reader:
        policy = PolicyFile(project / "policy.toml")
        judged = JudgedCalls(policy, Recordings([reader], policy), lambda *_: None)

    assert judged.today.total.before == 3


async def _record_by_api(store, project):
    agent = Agent(
        ScriptedModel([AssistantMessage(tool_calls=(ToolCall(name="pay", arguments={}),))]),
        tools=[tool(name="pay")(lambda: "paid")],
        components=[Policy.read(project / "policy.toml")],
        store=store,
        session_id="s",
        approver=StoredApprovals(),
    )
    async with agent:
        await agent.run("Pay.")
    (question,) = await questions_of(store, "s")
    with contextlib.suppress(FreezeError):  # One way out is that the name is reserved.
        await answer(store, question.id, question.digest, approve=True, by="ann", channel="page")
