"""The former place of `toolbus.cli.TerminalApprover`; it goes with the next version."""


def __getattr__(name: str) -> object:
    if name == "TerminalApprover":
        raise ImportError("toolbus.console.TerminalApprover is toolbus.cli.TerminalApprover now")
    raise AttributeError(name)
