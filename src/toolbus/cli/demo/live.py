"""Who works in the demo: a recording, or a model that is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.agent.agent import Agent
    from toolbus.components.components import AgentComponent
    from toolbus.models.protocol import Model
    from toolbus.tools.calls.approver import Approver
    from toolbus.tools.calls.gate import CallGate


def _approve(*_: object) -> bool:
    return True


def _ignore(_: Agent) -> None:
    return


class LiveModel(NamedTuple):
    """A *model*, further *components*, and who answers questions; *watch* is given the agent."""

    model: Model
    components: Sequence[AgentComponent] = ()
    approver: Approver | CallGate = _approve
    watch: Callable[[Agent], None] = _ignore
