"""Display hidden and bidirectional control characters of the input line as escapes.

Pasted or recalled text may contain characters that the user cannot see. The text itself is unchanged.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from prompt_toolkit.formatted_text import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from ..core.sanitize import compile_invisible, escape_visibly


class RevealProcessor(Processor):
    """prompt_toolkit processor that displays an escape for each hidden character."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return the visible fragments with the cursor mapping between text and display."""
        text = fragment_list_to_text(transformation_input.fragments)
        hidden = {match.start() for match in compile_invisible().finditer(text)}
        if not hidden:
            return Transformation(transformation_input.fragments)
        letters = explode_text_fragments(transformation_input.fragments)
        shown = [(item[0], escape_visibly(item[1]) if i in hidden else item[1]) for i, item in enumerate(letters)]
        positions = list(accumulate((len(text) for _, text in shown), initial=0))
        added = positions[-1] - len(shown)
        return Transformation(
            list(shown),
            source_to_display=lambda i: positions[i] if i < len(positions) else i + added,
            display_to_source=lambda i: bisect_right(positions, i) - 1 if i < positions[-1] else i - added,
        )
