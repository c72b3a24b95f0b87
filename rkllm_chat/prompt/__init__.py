"""From a conversation to the prompt of a model.

`compose_prompt` turns history and tools into messages, `TEMPLATES` render messages as a model family expects them,
`ToolIndex` ranks tools for a question, and `fence_untrusted` keeps text of tools from imitating the prompt. Pure
functions: no model, no server and no screen is known here.
"""

from .chat_templates import TEMPLATES, choose_template
from .compose import compose_native_prompt, compose_prompt
from .jinja_template import compile_template
from .pieces import Piece, Template, neutralize_control_tokens
from .tool_catalogue import Catalogue, make_catalogue
from .tool_ranking import ToolIndex, rank_tools, select_few_tools
from .untrusted_text import fence_untrusted, neutralize

__all__ = [
    "TEMPLATES",
    "Catalogue",
    "Piece",
    "Template",
    "ToolIndex",
    "choose_template",
    "compile_template",
    "compose_native_prompt",
    "compose_prompt",
    "fence_untrusted",
    "make_catalogue",
    "neutralize",
    "neutralize_control_tokens",
    "rank_tools",
    "select_few_tools",
]
