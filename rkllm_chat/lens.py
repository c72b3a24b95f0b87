"""The line that is typed, with what hides in it or turns it around shown as its escape; the text itself stays.

What is pasted, or comes back from a talk to be edited, may hold what its person never saw.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from prompt_toolkit.formatted_text import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from .clean import UNSEEN, reveal


class Lens(Processor):
    """Draws an escape for each hidden character, and finds the cursor's place among them."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        text = fragment_list_to_text(transformation_input.fragments)
        hidden = {match.start() for match in UNSEEN.finditer(text)}
        if not hidden:
            return Transformation(transformation_input.fragments)
        letters = explode_text_fragments(transformation_input.fragments)
        shown = [(one[0], reveal(one[1]) if at in hidden else one[1]) for at, one in enumerate(letters)]
        places = list(accumulate((len(text) for _, text in shown), initial=0))
        beyond = places[-1] - len(shown)
        return Transformation(
            list(shown),
            source_to_display=lambda at: places[at] if at < len(places) else at + beyond,
            display_to_source=lambda at: bisect_right(places, at) - 1 if at < places[-1] else at - beyond,
        )
