"""What redaction is measured with: published examples, look-alikes, source code, and other tools."""
