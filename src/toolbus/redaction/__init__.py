"""What nobody shall read is taken out: credentials and personal data."""
