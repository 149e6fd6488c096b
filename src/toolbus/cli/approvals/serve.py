"""`toolbus approvals serve`: signed answers by HTTP, until a signal ends the command."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from toolbus.approvals.answer_server import ServerAddress, serving_answers
from toolbus.approvals.webhook_signatures import read_secret
from toolbus.cli.output.screen import open_screen
from toolbus.config.approvals import ApprovalSettings, read_approvals
from toolbus.config.documents import NAME, read_document
from toolbus.presence.person import require_no_agent
from toolbus.settings.usage_error import UsageError
from toolbus.settings.user_folders import approvals_secret, config_folder
from toolbus.store.store_factory import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from toolbus.approvals.webhook_answers import WebhookReply
    from toolbus.approvals.webhook_signatures import WebhookSecret
    from toolbus.cli.output.stream import Output

_LAST_PORT = 65_535


def serve_answers(output: Output, address: str, listen: str) -> int:
    """Accept answers to questions of the store at *address* on *listen*, HOST:PORT; return 0.

    The signature proves the person, so no terminal is needed; an agent may not start it.
    """
    require_no_agent()
    host, port = _read_listen(listen)
    secret = read_secret(_secret_file())
    asyncio.run(_serve(output, address, secret, ServerAddress(host, port)))
    return 0


async def _serve(
    output: Output, address: str, secret: WebhookSecret, listen: ServerAddress
) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    screen = open_screen(output)

    def print_reply(reply: WebhookReply) -> None:
        screen.whole(f"{reply.status}: {reply.text}")

    async with (
        await asyncio.to_thread(open_store, address) as store,
        serving_answers(
            store, secret, host=listen.host, port=listen.port, on_reply=print_reply
        ) as bound,
    ):
        screen.whole(f"answers are taken at {bound.host}:{bound.port}")
        await ended.wait()


def _secret_file() -> Path:
    """Return the file that the user's own configuration names, else the usual one."""
    folder = config_folder()
    if folder is None:
        raise UsageError("there is no home folder, and so no secret to sign answers with")
    if (folder / NAME).exists():
        webhook = read_approvals(read_document(folder / NAME), ApprovalSettings()).webhook
        if webhook is not None:
            return webhook.secret_file
    return approvals_secret()


def _read_listen(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and port.isascii() and port.isdecimal() and int(port) <= _LAST_PORT):
        raise UsageError(f"expected HOST:PORT to listen at, such as 127.0.0.1:8787, not {text!r}")
    return host, int(port)
