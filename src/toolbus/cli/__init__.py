"""The command `toolbus`: one file for each of its commands."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.cli.command_line import main as main
    from toolbus.cli.questions.terminal_approver import TerminalApprover as TerminalApprover

__getattr__, __dir__ = lazy_exports(
    __name__, {"TerminalApprover": "questions.terminal_approver", "main": "command_line"}
)
