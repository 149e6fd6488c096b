"""What tools said of themselves when a person accepted them."""
