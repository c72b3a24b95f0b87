"""Client of services with an OpenAI-compatible API."""
