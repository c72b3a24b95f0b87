"""Read JSON Schemas: resolve, validate, coerce, merge, simplify, and write them as signatures.

All share `resolve.py`; all but `validate.py`, `merge.py`, `simplify.py` and `signature.py`, which keep the structure of
a schema, read the typed variants of its `Node`. One-shot commands import `validate.py`, so nothing is imported here.
"""
