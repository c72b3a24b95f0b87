"""Write the report that the owner of a board can send to the developers: the findings and a questionnaire.

The developers have not run the NPU, so the questions are about its behavior at run time. Names of users and machines
are replaced; serial numbers are never read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...core.sanitize import sanitize_line
from ...core.version import __version__
from .board import Board, Finding

_HOMES = re.compile(r"/(?:home|Users)/[^/\s,:]+|/root(?![\w-])")
# Default names in board images, which identify nobody and are kept.
_DEFAULT_NAMES = {"", "root", "localhost", "user", "rock", "radxa", "orangepi", "ubuntu", "debian", "armbian", "pi"}

_HEAD = """\
# Board report of rkllm-chat {version}

Home folders are replaced by `~`, the names of the user and of the machine by `<user>` and `<host>`. Read the report
before you send it. Rows with the state `warn` or `wrong` say what to do.

| state | what | found | what to do |
|---|---|---|---|
"""

_QUESTIONS_HEAD = """
## Questions that only a run can answer

`doctor` reads files and starts nothing; each step below starts the model. Answer what you can and leave the rest open.
Work in an empty folder and set these first:

```sh
M=/path/to/model.rkllm
export RKLLM_LOG_LEVEL=2            # the runtime then prints prompts, token ids and cache sizes
export XDG_STATE_HOME=$PWD/state    # and what it prints goes to state/rkllm-chat/logs/rkllm.log
```

`rkllm.log` below is that file. It contains your prompts and the model's replies: read it before you send parts of it.
"""


@dataclass(frozen=True)
class _Question:
    """A question that only a run of the model can answer.

    Attributes:
        title: The question.
        look: Where the answer can be seen.
        run: Shell commands to run.
        how: Further steps, or why this program cannot tell.
    """

    title: str
    look: str
    run: str = ""
    how: str = ""


_TOOL_CALL_COMMAND = 'rkllm-chat --model $M -p "What time is it in Tokyo?" --output-format json'

# The letters are stable, so that reports of different boards can be compared.
QUESTIONS: dict[str, _Question] = {
    "a": _Question(
        "Does the library copy the callback struct (1.3.0) and the model's path?",
        how="rkllm-chat cannot tell, because it keeps both as long as the model is open.",
        look="with a C program of your own, whether `rkllm_run` still works if both are freed after `rkllm_init`.",
    ),
    "b": _Question(
        "Does the library print to standard output or to standard error?",
        run="./llm_demo $M 64 512 2> error.txt",
        how="rkllm-chat cannot tell: it sends both to rkllm.log. This is the vendor's demo.",
        look="whether the lines `I rkllm: ...` are in error.txt or on the screen.",
    ),
    "c": _Question(
        "Is a prompt prefix that was evaluated before reused: sent as text, as token ids, after a stop?",
        run=_TOOL_CALL_COMMAND,
        how="Once with tokenizer.json beside the model (token ids), once without (text). Then in the chat: a question,"
        " Ctrl+C in the middle of its answer, another question.",
        look="in `usage.model_calls`, few `prefilled_tokens` and a short `prefill_s` in the second call; after the"
        " stop, whether the next answer begins at once.",
    ),
    "d": _Question(
        "Does the runtime count only the new tokens where a prefix is reused?",
        run=_TOOL_CALL_COMMAND,
        how="The run of (c) with tokenizer.json.",
        look="in the second of `usage.model_calls`, a short `prefill_s` with `prefilled_tokens` as large as"
        " `prompt_tokens`: then it counts all of them.",
    ),
    "e": _Question(
        "Native tools: what does the prompt look like for the role tool, and is the history kept (keep_history 1)?",
        run="printf '[rkllm]\\nnative_tools = true\\n' > native.toml\n" + _TOOL_CALL_COMMAND + " --config native.toml",
        look="the lines `prompt text: ...` of rkllm.log, and whether the answer contains the time.",
    ),
    "f": _Question(
        "What does the runtime return for a prompt that is longer than the context?",
        run="head -c 1300 /dev/zero | tr '\\0' 7 > long.txt\n"
        "rkllm-chat --model $M --no-servers --context 512 -p - < long.txt; echo $?",
        how="Without tokenizer.json: with it, rkllm-chat counts the tokens and never calls the runtime."
        " The sevens are for Qwen, where each digit is a token.",
        look="the error of rkllm-chat, the exit code, and the last lines of rkllm.log.",
    ),
    "g": _Question(
        "What does the cache contain after a stop?",
        run="rkllm-chat --model $M",
        how='In the chat: ask for a long story, Ctrl+C in the middle of it, then "What did you just tell me?"',
        look="`current kv cache size` in rkllm.log before and after the stop, and whether it knows what it wrote.",
    ),
    "h": _Question(
        "Is a prompt without a role treated as one of the user?",
        how="rkllm-chat cannot tell, because it always sends a role.",
        look="with a C program of your own, the line `prompt text: ...` for `role` NULL compared with that for `user`.",
    ),
    "i": _Question(
        "Do the library's defaults have the struct layout that rkllm-chat expects of its release?",
        run='rkllm-chat --model $M --no-servers -p "Hello"; echo $?',
        look="that it answers. A library whose defaults disagree with its release is refused, and the error says how.",
    ),
    "j": _Question(
        'Does release 1.3.0 run on this chip, or end with "Illegal instruction"?',
        run='rkllm-chat --model $M --no-servers -p "Hello"; echo $?\ngrep -m1 Features /proc/cpuinfo',
        how="With librkllmrt.so 1.3.0; then with 1.2.3, if you have it.",
        look="how each run ended, and the line Features.",
    ),
}


def write_report(board: Board, lines: Sequence[Finding]) -> str:
    """Return the report as Markdown."""
    rows = [
        f"| {line.state} | {_cell(line.name)} | {_cell(_value_of(line))} | {_cell(line.advice)} |" for line in lines
    ]
    findings = _HEAD.format(version=__version__) + "\n".join(rows) + "\n"
    return _anonymize(findings, board) + _QUESTIONS_HEAD + "".join(map(_write_question, QUESTIONS.items()))


def _value_of(line: Finding) -> str:
    """Return a line's value, except for configuration errors, which may quote a secret from the file."""
    is_private = (line.name, line.state) == ("configuration", "wrong")
    return "invalid; run rkllm-chat doctor for the reason" if is_private else line.value


def _cell(text: str) -> str:
    """Escape a text for a Markdown table cell."""
    return sanitize_line(text).replace("|", "\\|")


def _write_question(entry: tuple[str, _Question]) -> str:
    """Format one question as Markdown."""
    letter, question = entry
    run = f"```sh\n{question.run}\n```" if question.run else ""
    parts = (f"### ({letter}) {question.title}", run, question.how, f"Look for: {question.look}", "Answer:")
    return "\n" + "\n\n".join(filter(None, parts)) + "\n"


def _anonymize(text: str, board: Board) -> str:
    """Replace home folders and the names of the user and the machine."""
    if home := board.environment.get("HOME", "").rstrip("/"):
        text = re.sub(re.escape(home) + r"(?![\w-])", "~", text)
    text = _HOMES.sub("~", text)
    users = {board.environment.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")} | {home.rpartition("/")[2]}
    for names, placeholder in ((users, "<user>"), ({_read_host(board)}, "<host>")):
        for name in sorted(names - _DEFAULT_NAMES):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", placeholder, text)
    return text


def _read_host(board: Board) -> str:
    """Return the machine's host name, or ""."""
    try:
        return board.read("proc/sys/kernel/hostname", "etc/hostname")
    except OSError:
        return ""
