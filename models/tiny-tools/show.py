"""Prints conversations as training sees them, one JSON line each: `python models/tiny-tools/show.py --count 20`.

`wanted` are the calls of each reply, none for one that is said to a person; `learnt` says which replies are trained.
"""

import argparse
import json
from collections.abc import Iterator
from itertools import islice
from random import Random

from dialogues import Talk, like_talks
from scenes import Scene, draw_scene


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--held-out", action="store_true", help="from what is never trained")
    options = parser.parse_args()
    lines = draw_lines(Random(options.seed), options.held_out)
    for line in islice(lines, options.count):
        print(json.dumps(line, ensure_ascii=False))


def draw_lines(random: Random, held_out: bool) -> Iterator[dict[str, object]]:
    while True:
        scene = draw_scene(random, held_out)
        yield from (line_of(scene, talk) for talk in like_talks(scene, random, held_out))


def line_of(scene: Scene, talk: Talk) -> dict[str, object]:
    turns, said = [turn for turn, _ in talk], [one for _, messages in talk for one in messages]
    history = [message for message, _ in said]
    return {
        "form": scene.form,
        "level": scene.level,
        "kinds": [turn.kind for turn in turns],
        "languages": [turn.language for turn in turns],
        "tools": [[tool.name, tool.description, tool.schema, tool.server] for tool in scene.tools],
        "replies": [message.text for message in history if message.role == "assistant"],
        "wanted": [calls for turn in turns for calls in (*(step.calls for step in turn.steps), ())],
        "learnt": [bool(label) for message, label in said if message.role == "assistant"],
        "messages": [[message.role, message.text] for message in history],
        "prompt": "".join(piece.text for piece in scene.pieces(history[:1])),
    }


if __name__ == "__main__":
    main()
