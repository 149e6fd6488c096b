import pytest

from toolbus.config.approvals import ApprovalSettings, read_approvals
from toolbus.config.documents import read_document
from toolbus.config.tables import WebhookSettings
from toolbus.errors import ConfigurationError, RegistrationError
from toolbus.store import MemoryStore


def test_what_comes_first_counts(tmp_path):
    file = tmp_path / "toolbus.toml"
    file.write_text("[approvals]\nwait = 9\nexpires_after = 60")
    own = ApprovalSettings(wait=0.0)

    both = read_approvals(read_document(file), own)

    assert both == ApprovalSettings(wait=0.0, expires_after=60.0)


def test_a_project_does_not_say_where_questions_go(tmp_path):
    file = tmp_path / "toolbus.toml"
    file.write_text('[approvals]\nwebhook = { url = "https://x.example", secret_file = "key" }')
    document = read_document(file)

    named = read_approvals(document, ApprovalSettings())

    assert named.webhook == WebhookSettings(url="https://x.example", secret_file=tmp_path / "key")
    with pytest.raises(ConfigurationError, match="may not be set by a project"):
        read_approvals(document, ApprovalSettings(), is_project=True)


@pytest.mark.parametrize(
    ("webhook", "reason"),
    [
        ("5", "expected `object`, got `int`"),
        ('{ url = "x" }', "missing required field `secret_file`"),
        ('{ url = "x", secret_file = "k", to = 1 }', "contains unknown field `to`"),
    ],
)
def test_a_webhook_is_checked_for_its_form(tmp_path, webhook, reason):
    file = tmp_path / "toolbus.toml"
    file.write_text(f"[approvals]\nwebhook = {webhook}")

    with pytest.raises(ConfigurationError, match=reason):
        read_approvals(read_document(file), ApprovalSettings())


def test_who_keeps_questions_tells_the_webhook(tmp_path):
    key = tmp_path / "key"
    key.write_text("0123456789abcdef" * 4)
    key.chmod(0o600)
    webhook = WebhookSettings(url="http://127.0.0.1:9/", secret_file=key)

    (channel,) = ApprovalSettings(webhook=webhook).channels()

    assert "127.0.0.1:9" in repr(channel)
    key.chmod(0o644)
    with pytest.raises(RegistrationError):
        ApprovalSettings(webhook=webhook).make(MemoryStore(), "proxy", 0.0)
