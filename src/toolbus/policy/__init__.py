"""A policy: rules that allow, ask about or deny tool calls, and say why."""
