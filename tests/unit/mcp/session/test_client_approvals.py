"""Whose questions are whose, of clients without a session."""

from toolbus.mcp.session.client_approvals import ClientApprovals


def test_each_client_without_sessions_has_its_own_questions():
    clients, others = ClientApprovals(None), ClientApprovals(None)
    ann = [("authorization", "Bearer a"), ("user-agent", "x")]
    bob = [("authorization", "Bearer b"), ("user-agent", "x")]

    assert clients.session_of(ann) == clients.session_of(reversed(ann))
    assert clients.session_of(ann) != clients.session_of(bob)
    assert clients.session_of(ann) != others.session_of(ann)
