"""The agent-hooks contract: our components as an interceptor of every host that speaks it."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.bridges.agent_hooks.interceptor import (
        AgentHooksInterceptor as AgentHooksInterceptor,
    )

__getattr__, __dir__ = lazy_exports(__name__, {"AgentHooksInterceptor": "interceptor"})
