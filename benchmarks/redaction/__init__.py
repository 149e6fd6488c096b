"""What redaction is measured with: published examples, look-alikes, source code, other tools."""

REQUIREMENTS = ("detect-secrets", "kingfisher-bin")
"""What pip installs for it, ours and the others."""
