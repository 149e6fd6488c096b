"""The names of spans, attributes and metrics, by the GenAI conventions of OpenTelemetry.

Each of them has the status "Development": https://github.com/open-telemetry/semantic-conventions-genai.
`security_rule` and `error` are of its neighbour `semantic-conventions`, 1.45, the rest is ours.
"""

CONVENTIONS = "0.1.0"  # The version of the GenAI conventions.
INVOKE_AGENT, CHAT, EXECUTE_TOOL = "invoke_agent", "chat", "execute_tool"
OPERATION, CONVERSATION = "gen_ai.operation.name", "gen_ai.conversation.id"
AGENT, MODEL, TOOL = "gen_ai.agent.name", "gen_ai.request.model", "gen_ai.tool.name"
CALL_ID, FINISH_REASONS = "gen_ai.tool.call.id", "gen_ai.response.finish_reasons"
ERROR, RULE, RULESET = "error.type", "security_rule.name", "security_rule.ruleset.name"
STATUS = "toolbus.status"  # The attributes with texts.
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
# The event of a handler that changed, answered, denied, asked or failed; then its attributes.
HANDLER = "toolbus.handler"
EVENT, NAME, PRIORITY = "toolbus.event", "toolbus.handler.name", "toolbus.handler.priority"
DID, SECONDS = "toolbus.handler.status", "toolbus.handler.duration"
FIELDS, BYTES = "toolbus.handler.fields", "toolbus.handler.bytes"
# By the names of toolbus: the names after USAGE, and of the counters after TOKENS.
COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read.input_tokens",
    "cache_write_tokens": "cache_write.input_tokens",
    "reasoning_tokens": "reasoning.output_tokens",
}
USAGE, TOKENS, MODALITY = "gen_ai.usage", "gen_ai.client.inference.usage", "gen_ai.token.modality"
INTERVENTIONS = "toolbus.handler.interventions"
COUNTERS = {f"{TOKENS}.{end}": "{token}" for end in COUNTS.values()} | {INTERVENTIONS: "{call}"}
DURATIONS = {
    INVOKE_AGENT: "gen_ai.invoke_agent.duration",
    CHAT: "gen_ai.client.inference.duration",
    EXECUTE_TOOL: "gen_ai.execute_tool.duration",
}
BUCKETS = tuple([0.01 * 2**power for power in range(14)])  # Seconds, as the conventions advise.
