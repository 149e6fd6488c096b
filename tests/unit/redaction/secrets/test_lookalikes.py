"""Lines of a developer's day that only look as if they had a secret pass unchanged."""

import asyncio
import hashlib
import re
from base64 import b64encode
from pathlib import Path
from uuid import UUID

from toolbus.messages.record_walker import rewrite_response
from toolbus.messages.records import ToolResponse
from toolbus.redaction.secrets.engine import engine_for
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import choose

TEMPLATES = Path(__file__).with_name("lookalikes.txt").read_text("utf-8").splitlines()[2:]


def filled(line, number):
    """Return *line* with digests of *number* in its gaps."""
    digest = hashlib.sha512(b"%d" % number)
    raw, text = digest.digest(), digest.hexdigest()
    values = {f"hex{size}": text[:size] for size in (16, 32, 40, 64)} | {
        "k8s": text[:10],
        "uuid": str(UUID(bytes=raw[:16], version=4)),
        "base64": b64encode(raw[:32]).decode(),
        "fingerprint": b64encode(raw[:32]).decode().rstrip("="),
        "spki": b64encode(bytes.fromhex("302a300506032b6570032100") + raw[:32]).decode(),
        "sshkey": b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + raw[:32]).decode(),
        "sri": b64encode(raw).decode(),
        "bcrypt": b64encode(raw).decode().replace("+", ".")[:53],
    }
    return re.sub(r"⟦(\w+)⟧", lambda gap: values[gap[1]], line)


def test_lines_with_words_for_secrets_pass():
    redactor = Redactor(engine_for(choose((), (), {})), chars=10_000_000, seconds=600)
    lines = [filled(line, number) for number in range(4) for line in TEMPLATES]

    cleaned = asyncio.run(
        redactor.clean("s", ToolResponse.from_text("\n\n".join(lines)), rewrite_response)
    )

    assert len(TEMPLATES) > 200
    changed = zip(lines, cleaned.text.split("\n\n"), strict=True)
    assert [after for line, after in changed if line != after] == []
