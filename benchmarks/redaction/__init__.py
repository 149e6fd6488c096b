"""What redaction is measured with: published examples, look-alikes, source code, other tools."""
