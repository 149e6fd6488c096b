"""Detection of personal data in texts: patterns, check digits and words nearby."""
