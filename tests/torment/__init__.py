"""A hostile crowd that a seed makes: what it asks, how it behaves, what a server may do to it. See `__main__.py`."""
