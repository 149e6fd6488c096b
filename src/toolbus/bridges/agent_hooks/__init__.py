"""The agent-hooks contract on both sides: our components in a host, interceptors in our agent."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.bridges.agent_hooks.component import AgentHooksComponent as AgentHooksComponent
    from toolbus.bridges.agent_hooks.contract import IdentityProvider as IdentityProvider
    from toolbus.bridges.agent_hooks.interceptor import (
        AgentHooksInterceptor as AgentHooksInterceptor,
    )

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AgentHooksComponent": "component",
        "AgentHooksInterceptor": "interceptor",
        "IdentityProvider": "contract",
    },
)
