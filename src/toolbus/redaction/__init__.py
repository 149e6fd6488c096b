"""Redaction of credentials and personal data."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.redaction.redact_personal_data import RedactPersonalData as RedactPersonalData
    from toolbus.redaction.redact_secrets import RedactSecrets as RedactSecrets
    from toolbus.redaction.secrets.vault import VaultEntry as VaultEntry

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "RedactPersonalData": "redact_personal_data",
        "RedactSecrets": "redact_secrets",
        "VaultEntry": "secrets.vault",
    },
)
