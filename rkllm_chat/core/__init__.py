"""What every other package may import: messages, events, errors, protocols, and the handling of untrusted text.

It imports no other package of the program. One-shot commands import its modules, so nothing is imported here.
"""
