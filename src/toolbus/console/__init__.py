"""An agent in a terminal, or in a pipe: `toolbus run`."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_names import lazily

if TYPE_CHECKING:
    from toolbus.console.terminal_approver import TerminalApprover as TerminalApprover

__getattr__, __dir__ = lazily(__name__, {"TerminalApprover": "terminal_approver"})
