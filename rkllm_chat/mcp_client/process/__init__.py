"""Server processes: plan their start (`launch`), sandbox them, start them and stop them with all their children.

Nothing is imported here: one-shot commands import `launch` before anything else.
"""
