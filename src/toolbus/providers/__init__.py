"""The models of OpenAI, of Anthropic, and of servers that speak like them."""
