"""What tools said of themselves when they were accepted."""
