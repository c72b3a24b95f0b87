"""Read JSON Schemas: resolve, validate, coerce, merge, simplify, and write them as signatures.

All visitors share the resolver of `resolve.py`. One-shot commands import `validate.py`, so nothing is imported here.
"""
