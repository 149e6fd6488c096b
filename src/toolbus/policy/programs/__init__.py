"""What everyday programs do, as data."""
