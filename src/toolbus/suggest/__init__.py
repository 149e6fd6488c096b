"""Rules for a policy, proposed from the calls that a person approved."""
