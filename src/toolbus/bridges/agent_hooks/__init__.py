"""The agent-hooks contract on both sides.

`AgentHooksInterceptor` is one interceptor with our components, for a host that speaks the
contract; `AgentHooksComponent` lets interceptors of others judge what our agent does.
"""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.bridges.agent_hooks.component import AgentHooksComponent as AgentHooksComponent
    from toolbus.bridges.agent_hooks.interceptor import (
        AgentHooksInterceptor as AgentHooksInterceptor,
    )
    from toolbus.bridges.agent_hooks.seams import IdentityProvider as IdentityProvider

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AgentHooksComponent": "component",
        "AgentHooksInterceptor": "interceptor",
        "IdentityProvider": "seams",
    },
)
