"""The log of `toolbus worker`."""

import logging

from toolbus.cli.worker import QuietFormatter


def test_lines_of_the_log_have_no_values():
    def line(name, msg, *args, error=None):
        where = (name, logging.WARNING, "/src/run.py", 7, msg, args)
        exc_info = None if error is None else (type(error), error, None)
        return QuietFormatter().format(logging.LogRecord(*where, exc_info))

    secret = "sk-planted"
    lost = f"Task exception was never retrieved\nfuture: <Task exception={secret}>"

    assert line("toolbus", "no answer yet: %s", secret) == "no answer yet: … (run)"
    assert line("toolbus", "%r failed", secret, error=ValueError(secret)) == (
        "… failed (run, ValueError)"
    )
    assert line("asyncio", lost) == "Task exception was never retrieved (run)"
    assert line("toolbus.durable", "run %s", "ab12") == "run ab12"
    assert line("mine", "%s is mine", "this") == "this is mine"
