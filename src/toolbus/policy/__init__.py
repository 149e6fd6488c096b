"""A policy: rules that allow, ask about or deny tool calls, and say why."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_names import lazily

if TYPE_CHECKING:
    from toolbus.policy.policy import Policy as Policy

__getattr__, __dir__ = lazily(__name__, {"Policy": "policy"})
