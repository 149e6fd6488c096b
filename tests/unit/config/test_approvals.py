from toolbus.config.approvals import ApprovalSettings, read_approvals
from toolbus.config.documents import read_document


def test_what_comes_first_counts(tmp_path):
    file = tmp_path / "toolbus.toml"
    file.write_text("[approvals]\nwait = 9\nexpires_after = 60")
    own = ApprovalSettings(wait=0.0)

    both = read_approvals(read_document(file), own)

    assert both == ApprovalSettings(wait=0.0, expires_after=60.0)
