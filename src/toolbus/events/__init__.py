"""The events of an agent's life, and their values.

Dispatched with `apply`, where handlers may change the value, refuse it, or answer:
`RUN_BEFORE` - a `RunStart`; a run begins
`RUN_ERROR` - a `RunFailure`; an exception is about to leave the run
`TOOLS_PROVIDE` - a tuple of `ToolSpec`; the tools for the model, before each of its calls
`MODEL_CALL_BEFORE` - a `ModelRequest`; as it will be sent
`MODEL_CALL_ERROR` - a `ModelFailure`; a model call raised
`TOOL_CALL_BEFORE` - a `ToolCall`; before its tool runs
`TOOL_CALL_ERROR` - a `ToolCallFailure`; the tool raised, timed out or returned an error
`MESSAGE_APPEND_BEFORE` - a `Message`; before it enters the transcript
`MESSAGE_PERSIST_BEFORE` - a `Message`; the copy for the store
`MCP_REQUEST_BEFORE` - an `McpRequest`; a request of a client of `toolbus proxy`, except tool calls

Dispatched with `do` or `observe`, for observers:
`RUN_AFTER` - a `RunResult`; once per run
`MODEL_CALL_DELTA` - a `ModelDelta`; a piece of a streamed answer
`MODEL_CALL_AFTER` - a `ModelReply`; the model answered
`TOOL_CALL_AFTER` - a `ToolCallOutcome`; once per call, after a kill once more, marked `again`
`TOOL_CALL_PERSIST_BEFORE` - a `ToolCallPersist`; before a result is stored
`TOOL_CALL_PERSIST_AFTER` - a `ToolCallPersist`; after it was stored
`MESSAGE_APPEND_AFTER` - a `Message`; now in the transcript and in the store

`toolbus guide failures` describes for each event the effect of a failed handler.
"""

from toolbus.events.call_values import ToolStatus as ToolStatus
from toolbus.events.catalogue import CATALOGUE as CATALOGUE
from toolbus.events.catalogue import MCP_REQUEST_BEFORE as MCP_REQUEST_BEFORE
from toolbus.events.catalogue import MESSAGE_APPEND_AFTER as MESSAGE_APPEND_AFTER
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE as MESSAGE_APPEND_BEFORE
from toolbus.events.catalogue import MESSAGE_PERSIST_BEFORE as MESSAGE_PERSIST_BEFORE
from toolbus.events.catalogue import MODEL_CALL_AFTER as MODEL_CALL_AFTER
from toolbus.events.catalogue import MODEL_CALL_BEFORE as MODEL_CALL_BEFORE
from toolbus.events.catalogue import MODEL_CALL_DELTA as MODEL_CALL_DELTA
from toolbus.events.catalogue import MODEL_CALL_ERROR as MODEL_CALL_ERROR
from toolbus.events.catalogue import RUN_AFTER as RUN_AFTER
from toolbus.events.catalogue import RUN_BEFORE as RUN_BEFORE
from toolbus.events.catalogue import RUN_ERROR as RUN_ERROR
from toolbus.events.catalogue import TOOL_CALL_AFTER as TOOL_CALL_AFTER
from toolbus.events.catalogue import TOOL_CALL_BEFORE as TOOL_CALL_BEFORE
from toolbus.events.catalogue import TOOL_CALL_ERROR as TOOL_CALL_ERROR
from toolbus.events.catalogue import TOOL_CALL_PERSIST_AFTER as TOOL_CALL_PERSIST_AFTER
from toolbus.events.catalogue import TOOL_CALL_PERSIST_BEFORE as TOOL_CALL_PERSIST_BEFORE
from toolbus.events.catalogue import TOOLS_PROVIDE as TOOLS_PROVIDE
from toolbus.events.catalogue import Ask as Ask
from toolbus.events.catalogue import Deny as Deny
from toolbus.events.catalogue import Event as Event
from toolbus.events.catalogue import McpRequest as McpRequest
from toolbus.events.catalogue import ModelDelta as ModelDelta
from toolbus.events.catalogue import ModelFailure as ModelFailure
from toolbus.events.catalogue import ModelReply as ModelReply
from toolbus.events.catalogue import ModelRequest as ModelRequest
from toolbus.events.catalogue import ObserveEvent as ObserveEvent
from toolbus.events.catalogue import Retry as Retry
from toolbus.events.catalogue import RunFailure as RunFailure
from toolbus.events.catalogue import RunResult as RunResult
from toolbus.events.catalogue import RunStart as RunStart
from toolbus.events.catalogue import RunStatus as RunStatus
from toolbus.events.catalogue import Scope as Scope
from toolbus.events.catalogue import ToolCallFailure as ToolCallFailure
from toolbus.events.catalogue import ToolCallOutcome as ToolCallOutcome
from toolbus.events.catalogue import ToolCallPersist as ToolCallPersist
from toolbus.events.catalogue import ToolSpec as ToolSpec
from toolbus.events.catalogue import TransformEvent as TransformEvent
from toolbus.events.catalogue import TurnEnd as TurnEnd
from toolbus.events.catalogue import by_name as by_name
from toolbus.events.values import Failure as Failure
