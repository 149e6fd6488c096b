"""The page on which a person sees sessions, questions and the effects of handlers."""
