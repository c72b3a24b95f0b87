"""Model text to tool calls: scanner, formats, schema validation, grammars, and corrections for the model.

`scanner.Scanner` finds the calls in streamed text, `formats.FORMATS` describes how they are written,
`arguments.validate_arguments` checks them against the tool's JSON Schema, and `feedback` writes the correction of an
invalid call. Nothing here calls a tool. One-shot commands import `schema`, so nothing is imported here.
"""
