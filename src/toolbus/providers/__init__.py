"""The models of OpenAI, Anthropic and compatible servers."""
