"""What users need to test their handlers."""
