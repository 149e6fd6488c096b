"""Without the extra `http` answers can be checked, and a webhook names the extra."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["h11"] = None
from pathlib import Path
from toolbus import approvals
from toolbus.cli import main
from toolbus.config.approvals import ApprovalSettings
from toolbus.config.tables import WebhookSettings
from toolbus.errors import RegistrationError

assert callable(approvals.receive_answer)
settings = WebhookSettings(url="https://example.com/ask", secret_file=Path("key"))
try:
    ApprovalSettings(webhook=settings).channels()
except RegistrationError as error:
    print(error)
sys.exit(main(["approvals", "serve", "--store", "agent.db"]))
"""


def test_a_missing_extra_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert "install the extra, `pip install '.[http]'`" in done.stdout
    assert done.stderr.startswith("error: an HTTP server needs h11; install")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
