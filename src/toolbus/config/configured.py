"""What a configuration comes to: components made of its entries, and what else it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.config.approvals import ApprovalSettings

if TYPE_CHECKING:
    from pathlib import Path

    from toolbus.components.components import AgentComponent
    from toolbus.config.entries import Entry
    from toolbus.config.prices import Price
    from toolbus.config.servers import ServerEntry


class Configured(NamedTuple):
    """A *component*, and the *entry* of the file that it was made of.

    *is_personal* is False in a project's file that nobody has named.
    """

    entry: Entry
    component: AgentComponent
    is_personal: bool = True


class Configuration(NamedTuple):
    """What *file* names, in the order in which it is to be installed, and what is *disabled*.

    *servers* are those MCP servers that are enabled, *prices* those of models, *approvals* what
    is said of questions to a person. If it was looked for, the user's own comes first, and stands
    alone where the project's is not trusted: *refusal* says why.
    """

    file: Path
    configured: tuple[Configured, ...]
    disabled: tuple[Entry, ...]
    refusal: str = ""
    servers: tuple[ServerEntry, ...] = ()
    prices: tuple[Price, ...] = ()
    approvals: ApprovalSettings = ApprovalSettings()

    @property
    def components(self) -> tuple[AgentComponent, ...]:
        """The components, for `Agent(components=…)`."""
        return tuple([configured.component for configured in self.configured])

    @property
    def personal(self) -> tuple[AgentComponent, ...]:
        """The components of the user's own configuration, or of the named one."""
        return tuple([each.component for each in self.configured if each.is_personal])
