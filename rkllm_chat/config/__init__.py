"""Settings of the user and of a project folder: read, merged, validated, edited, and what the user has approved.

`loader.load_settings` reads all files for the chat; one-shot commands read only server entries through `files`, so
nothing is imported here.
"""
