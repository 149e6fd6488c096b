"""A task that dies leaves a reason for who waits for it, and a line in the log."""

import pytest

from toolbus.http.client import TransportError
from toolbus.mcp.http.failures import failure_of
from toolbus.mcp.transport.processes import PROXY_FAILED


async def returning(result):
    if isinstance(result, Exception):
        raise result
    return result


@pytest.mark.parametrize(
    ("result", "reason"),
    [("it ended", "it ended"), (TransportError("it broke off"), "it broke off")],
)
async def test_what_can_be_foreseen_is_the_reason(result, reason, caplog):
    assert await failure_of(returning(result)) == reason
    assert not caplog.text


async def test_what_nobody_foresaw_is_in_the_log(caplog):
    assert await failure_of(returning(LookupError("unforeseen"))) == PROXY_FAILED
    assert "unforeseen" in caplog.text
