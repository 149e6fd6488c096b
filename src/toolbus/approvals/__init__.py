"""Questions that wait: approvals bound to their call, which outlive a process."""
