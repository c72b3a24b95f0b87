"""Services that have a model: a real one, and one that misbehaves."""
