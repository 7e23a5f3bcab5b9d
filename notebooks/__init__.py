"""Notebooks that teach the product, and what executes them: `python -m notebooks`."""
