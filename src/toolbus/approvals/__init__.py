"""Approvals that outlive a process: questions and grants in a store, and channels to a person."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.approvals.channels import Notifier as Notifier
    from toolbus.approvals.grants import revoke_grant as revoke_grant
    from toolbus.approvals.questions import Grant as Grant
    from toolbus.approvals.questions import Question as Question
    from toolbus.approvals.steps import AnswerResult as AnswerResult
    from toolbus.approvals.steps import answer as answer
    from toolbus.approvals.stored import StoredApprovals as StoredApprovals
    from toolbus.approvals.webhook import Webhook as Webhook
    from toolbus.approvals.webhook_answers import receive_answer as receive_answer
    from toolbus.approvals.webhook_signatures import WebhookSecret as WebhookSecret
    from toolbus.approvals.webhook_signatures import read_secret as read_secret

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AnswerResult": "steps",
        "Grant": "questions",
        "Notifier": "channels",
        "Question": "questions",
        "StoredApprovals": "stored",
        "Webhook": "webhook",
        "WebhookSecret": "webhook_signatures",
        "answer": "steps",
        "read_secret": "webhook_signatures",
        "receive_answer": "webhook_answers",
        "revoke_grant": "grants",
    },
)
