"""The Retry-After header of HTTP responses."""

from __future__ import annotations

import time


def parse_retry_after(text: str) -> float | None:
    """Return the seconds in a Retry-After header (RFC 9110, 10.2.3), a number or a date; None if it is neither."""
    if text.strip().isdecimal():
        return float(text)
    from email.utils import parsedate_to_datetime  # 10 ms, which one-shot commands need not spend

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
