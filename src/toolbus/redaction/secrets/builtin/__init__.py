"""Our own rules, by subject: what the published set leaves out."""
