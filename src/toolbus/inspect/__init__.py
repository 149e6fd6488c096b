"""What a store, or a configuration, tells a person."""
