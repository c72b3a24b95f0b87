"""Currencies: which of those that a model writes as a code stand in a text, in words or as a symbol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_PARAMETER = re.compile(r"(?:\w+_)?currency(?:_\w+)?|base|from|source|target|to", re.IGNORECASE)
_DOLLAR = r"\$|dollars?\b|ドル|美元|美金"
_WORDS: Mapping[str, str] = {
    "AUD": _DOLLAR,
    "CAD": _DOLLAR,
    "CHF": r"\bfran(?:c|k|ken)s?\b|フラン|法郎",
    "CNY": r"¥|￥|\b(?:rmb|yuan|renminbi)\b|人民|(?<![日美欧韩])元|块",
    "EUR": r"€|euros?\b|ユーロ|欧元",
    "GBP": r"£|\bpounds?\b|\bsterling\b|\bquid\b|ポンド|英镑",
    "HKD": _DOLLAR,
    "INR": r"₹|\brupees?\b|ルピー|卢比",
    "JPY": r"¥|￥|\byen\b|円|日元|日圆",
    "KRW": r"₩|\bwon\b|ウォン|韩元",
    "SGD": _DOLLAR,
    "USD": _DOLLAR,
}
"""How currencies are said, by code; of others nothing is known here."""


def has_unsaid_currency(arguments: Mapping[str, Any], text: str) -> bool:
    """Return whether a call has the code of a currency that a text has neither as such nor in words.

    >>> has_unsaid_currency({"from_currency": "JPY", "to_currency": "USD"}, "I pay with a 5000 yen note, what is left?")
    True
    """
    return any(code not in _list_said(text) for code in _select_codes(arguments).values())


def write_currencies(arguments: Mapping[str, Any], question: str) -> dict[str, Any]:
    """Return the arguments of a call with both of the currencies that a question names, where it has only one of them.

    >>> write_currencies({"from_currency": "EUR", "to_currency": "JPY"}, "500人民币能换多少日元")
    {'from_currency': 'CNY', 'to_currency': 'JPY'}
    """
    written, said = _select_codes(arguments), _list_said(question)
    unsaid = [name for name, code in written.items() if code not in said]
    unused = [code for code in said if code not in written.values()]
    is_clear = len(written) == len(said) == 2 and len(unsaid) == len(unused) == 1
    return {**arguments, unsaid[0]: unused[0]} if is_clear else {**arguments}


def _select_codes(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments that are the code of a known currency, by name."""
    codes = {name: value.upper() for name, value in arguments.items() if isinstance(value, str)}
    return {name: code for name, code in codes.items() if code in _WORDS and _PARAMETER.fullmatch(name)}


def _list_said(text: str) -> list[str]:
    """Return the codes of the currencies that a text may mean."""
    return [code for code, words in _WORDS.items() if re.search(rf"\b{code}\b|{words}", text, re.IGNORECASE)]
