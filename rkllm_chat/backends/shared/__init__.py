"""What several backends need: stop sequences, token counts, prompt cache files, streams of a thread."""
