"""Units that are installed on an agent: components, their marks and their adapters."""

from toolbus.components.adapters import AdapterContext as AdapterContext
from toolbus.components.adapters import ToolAdapter as ToolAdapter
from toolbus.components.components import APPEND_PRIORITY as APPEND_PRIORITY
from toolbus.components.components import PROVIDE_PRIORITY as PROVIDE_PRIORITY
from toolbus.components.components import AgentComponent as AgentComponent
from toolbus.components.components import Host as Host
from toolbus.components.marks import guard as guard
from toolbus.components.marks import on as on
from toolbus.components.state import State as State
