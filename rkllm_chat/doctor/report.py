"""The report that a board's owner can send us: what doctor found, and the questions that only a run can answer.

Nobody here has run the NPU, so the questions are open. Names of people and machines are taken out; serial numbers were
never read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .. import __version__
from ..clean import clean_line
from .board import Board, Line

HOMES = re.compile(r"/(?:home|Users)/[^/\s,:]+|/root(?![\w-])")
# Names that images come with, which name nobody.
COMMON = {"", "root", "localhost", "user", "rock", "radxa", "orangepi", "ubuntu", "debian", "armbian", "pi"}

HEAD = """\
# Board report of rkllm-chat {version}

Home folders are written `~`, the names of the user and of the machine `<user>` and `<host>`. Read it before you send
it. Lines `look` and `wrong` carry what to do.

| state | what | found | what to do |
|---|---|---|---|
"""

QUESTIONS_HEAD = """
## What only a run can tell

Nothing below was asked by `doctor`: it reads files and starts nothing. Each step starts the model. Answer what you can
and leave the rest open. Work in an empty folder and set these first:

```sh
M=/path/to/model.rkllm
export RKLLM_LOG_LEVEL=2            # the runtime then prints prompts, token ids and cache sizes
export XDG_STATE_HOME=$PWD/state    # and what it prints goes to state/rkllm-chat/logs/rkllm.log
```

`rkllm.log` below is that file. It holds your questions and the model's answers: read what you send of it.
"""


@dataclass(frozen=True)
class Question:
    """`run`: shell lines; `how`: what else to do, or why this program cannot tell; `look`: where the answer is."""

    title: str
    look: str
    run: str = ""
    how: str = ""


TOKYO = 'rkllm-chat --model $M -p "What time is it in Tokyo?" --output-format json'

# The letters are those of our notes on the runtime, kept so that reports can be compared.
QUESTIONS: dict[str, Question] = {
    "a": Question(
        "Does the library copy the callback struct (1.3.0) and the model's path?",
        how="rkllm-chat cannot tell: it keeps both as long as the model is open, so that it need not know.",
        look="with a C program of yours, whether `rkllm_run` still works after both were freed behind `rkllm_init`.",
    ),
    "b": Question(
        "Does the library print to standard output or to standard error?",
        run="./llm_demo $M 64 512 2> error.txt",
        how="rkllm-chat cannot tell: it sends both to rkllm.log. This is the vendor's demo.",
        look="whether the lines `I rkllm: ...` stand in error.txt or on the screen.",
    ),
    "c": Question(
        "Is the beginning of a prompt that was evaluated before used again: sent as text, as token ids, after a stop?",
        run=TOKYO,
        how="Once with tokenizer.json beside the model (token ids), once without (text). Then in the chat: a question,"
        " Ctrl+C in the middle of its answer, another question.",
        look="in `usage.model_calls`, few `prefilled_tokens` and a short `prefill_s` in the second call; after the"
        " stop, whether the next answer begins at once.",
    ),
    "d": Question(
        "Does the runtime count the new tokens alone where a beginning is used again?",
        run=TOKYO,
        how="The run of (c) with tokenizer.json.",
        look="in the second of `usage.model_calls`, a short `prefill_s` with `prefilled_tokens` as large as"
        " `prompt_tokens`: then it counts all of them.",
    ),
    "e": Question(
        "Native tools: what does the prompt look like for the role tool, and is the history kept (keep_history 1)?",
        run="printf '[rkllm]\\nnative_tools = true\\n' > native.toml\n" + TOKYO + " --config native.toml",
        look="the lines `prompt text: ...` of rkllm.log, and whether the answer holds the time.",
    ),
    "f": Question(
        "What comes back for a prompt that is longer than the context?",
        run="head -c 1300 /dev/zero | tr '\\0' 7 > long.txt\n"
        "rkllm-chat --model $M --no-servers --context 512 -p - < long.txt; echo $?",
        how="Without tokenizer.json beside the model: with it, rkllm-chat counts and does not even ask the runtime."
        " The sevens are for Qwen, where each digit is a token.",
        look="our error and the exit code, and the last lines of rkllm.log.",
    ),
    "g": Question(
        "What does the cache hold after a stop?",
        run="rkllm-chat --model $M",
        how='In the chat: ask for a long story, Ctrl+C in the middle of it, then "What did you just tell me?"',
        look="`current kv cache size` in rkllm.log before and behind the stop, and whether it knows what it told.",
    ),
    "h": Question(
        "Is a prompt without a role taken as one of the user?",
        how="rkllm-chat cannot tell: it always gives the role.",
        look="with a C program of yours, the line `prompt text: ...` for `role` NULL beside that for `user`.",
    ),
    "i": Question(
        "Do the library's defaults have the layout that we expect of its release?",
        run='rkllm-chat --model $M --no-servers -p "Hello"; echo $?',
        look="that it answers. A library whose defaults disagree with its release is refused, and the error says how.",
    ),
    "j": Question(
        'Does release 1.3.0 run on this chip, or end with "Illegal instruction"?',
        run='rkllm-chat --model $M --no-servers -p "Hello"; echo $?\ngrep -m1 Features /proc/cpuinfo',
        how="With librkllmrt.so 1.3.0; then with 1.2.3, if you have it.",
        look="how each run ended, and the line Features.",
    ),
}


def write_report(board: Board, lines: Sequence[Line]) -> str:
    """The report in Markdown."""
    rows = [f"| {line.state} | {cell(line.name)} | {cell(value_of(line))} | {cell(line.advice)} |" for line in lines]
    found = HEAD.format(version=__version__) + "\n".join(rows) + "\n"
    return anonymous(found, board) + QUESTIONS_HEAD + "".join(map(write_question, QUESTIONS.items()))


def value_of(line: Line) -> str:
    """What was found, but for an error in a configuration: that may say a secret out of the file."""
    is_private = (line.name, line.state) == ("configuration", "wrong")
    return "cannot be used; what is wrong is told by rkllm-chat doctor" if is_private else line.value


def cell(text: str) -> str:
    """One cell of a table."""
    return clean_line(text).replace("|", "\\|")


def write_question(entry: tuple[str, Question]) -> str:
    letter, question = entry
    run = f"```sh\n{question.run}\n```" if question.run else ""
    parts = (f"### ({letter}) {question.title}", run, question.how, f"Look for: {question.look}", "Answer:")
    return "\n" + "\n\n".join(filter(None, parts)) + "\n"


def anonymous(text: str, board: Board) -> str:
    """The text without home folders, and without the names of the user and of the machine."""
    if home := board.environment.get("HOME", "").rstrip("/"):
        text = re.sub(re.escape(home) + r"(?![\w-])", "~", text)
    text = HOMES.sub("~", text)
    users = {board.environment.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")} | {home.rpartition("/")[2]}
    for names, mark in ((users, "<user>"), ({read_host(board)}, "<host>")):
        for name in sorted(names - COMMON):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", mark, text)
    return text


def read_host(board: Board) -> str:
    try:
        return board.read("proc/sys/kernel/hostname", "etc/hostname")
    except OSError:
        return ""
