"""The models of OpenAI, Anthropic and compatible servers, and those of recorded sessions."""
