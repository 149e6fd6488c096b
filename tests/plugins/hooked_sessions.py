"""Made sessions of a coding agent, recorded by the real service of its hooks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.plugins.habits import POLICY
from tests.plugins.made_sessions import DAY, FIRST_DAY, at_home
from tests.plugins.persons import present_person

from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import questions_of
from toolbus.hosts.run.event_input import read_event
from toolbus.hosts.run.requests import HookSettings
from toolbus.hosts.run.service import HookService
from toolbus.presence.person import person_terminal
from toolbus.store import SqliteStore
from toolbus.testing.fakes import FakeClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CONFIG = """\
[[component]]
use = "policy"
settings = {{ file = "policy.toml" }}

[approvals]
host_asks = {host_asks}
"""
OWN, PLANTED, HOSTED = "git push origin main", "bash tools/fmt.sh", "git fetch --prune origin"
"""A habit and a trap that toolbus asks about, and a call that the agent asks its own user about."""
RESULT = {"stdout": "done", "stderr": "", "interrupted": False, "isImage": False}


class HookedCall(NamedTuple):
    """The call of a *line*, with an own id unless *call_id*, and a yes to it if *approve*.

    The agent asks its own user if *is_hosted*.
    """

    line: str
    call_id: str = ""
    approve: bool = True
    is_hosted: bool = False


USUAL = (HookedCall(OWN), HookedCall(PLANTED), HookedCall(HOSTED, is_hosted=True)) * 2
"""The calls of a session with questions of both kinds."""


class HookedSessions:
    """Sessions of Claude Code in *project*, a day apart, in one store of hooks below it."""

    def __init__(self, project: Path) -> None:
        self.project, self.store = project, project.parent / "state" / "hooks.db"
        self._config = project / "toolbus.toml"
        self._number, self._clock = 0, FakeClock(FIRST_DAY)
        # Some of its tools have names of their own, which this key knows.
        (project / "policy.toml").write_text(f"coding_agents = true\n{POLICY}")

    async def record(self, sessions: Sequence[Sequence[HookedCall]] = (USUAL,) * 4) -> Path:
        """Record the calls of *sessions*; return the store."""
        with at_home(self.project), present_person(), pytest.MonkeyPatch.context() as patch:
            # The service has no argument for the time of questions.
            patch.setitem(StoredApprovals.__init__.__kwdefaults__, "clock", self._clock)
            for number, calls in enumerate(sessions):
                self._clock.now_ns = FIRST_DAY + number * DAY * 10**9
                for call in calls:
                    await self._record(f"day-{number}", call)
        return self.store

    async def _record(self, session: str, call: HookedCall) -> None:
        """Let the agent make *call* until it may run or is refused, and report its result."""
        self._config.write_text(CONFIG.format(host_asks=str(call.is_hosted).lower()))
        settings = HookSettings(config=str(self._config), store=self.store)
        async with HookService(settings) as service:
            verdict = await self._decide(service, session, call)
            assert verdict == ("ask" if call.is_hosted else "deny")
            if not call.is_hosted:
                await self._answer(f"claude-code:{session}", approve=call.approve)
                verdict = await self._decide(service, session, call)
                assert verdict == ("" if call.approve else "deny")
            if call.approve:
                await self._send(service, "PostToolUse", session, call, tool_response=RESULT)

    async def _decide(self, service: HookService, session: str, call: HookedCall) -> str:
        """Return the decision on *call*, "" if it may run."""
        self._number += 1
        made = await self._send(service, "PreToolUse", session, call)
        told = json.loads(made.stdout or b"{}").get("hookSpecificOutput", {})
        return told.get("permissionDecision", "")

    async def _send(
        self, service: HookService, event: str, session: str, call: HookedCall, **members: Any
    ) -> Any:
        told = {
            "session_id": session,
            "cwd": str(self.project),
            "hook_event_name": event,
            "tool_name": "Bash",
            "tool_input": {"command": call.line},
            "tool_use_id": call.call_id or f"call-{self._number}",
            **members,
        }
        return await service.answer(read_event("claude-code", event, json.dumps(told).encode()))

    async def _answer(self, session_id: str, *, approve: bool) -> None:
        """Answer the pending questions of a session at the terminal."""
        self._clock.advance(30)
        async with SqliteStore(self.store) as store:
            with person_terminal() as terminal:
                for question in await questions_of(store, session_id):
                    if question.state == "pending":
                        await answer(
                            store,
                            question.id,
                            question.digest,
                            approve=approve,
                            by="ann",
                            channel=terminal,
                            clock=self._clock,
                        )
