"""`-p` runs one turn as a process: its three output formats, exit codes, signals and closed pipes."""

from __future__ import annotations

import json
import signal
import subprocess
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import fork_server
from mcp_client.faults import chaos, read_events
from pictures import take_photo
from processes import find_children, is_there
from rkllm_chat.core.messages import Message
from rkllm_chat.storage.session_files import SessionDirectory
from stage import PROGRAM, Run, Script, call_text

NO_SERVERS = ("--no-servers",)


@pytest.fixture
def acting(folder: Path) -> tuple[str, ...]:
    """The options for a configuration with a small server whose tool `act` may run."""
    server = chaos(folder, "ok")
    env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in server.env.items())
    (folder / "own.toml").write_text(
        f'[[servers]]\nname = "chaos"\ncommand = {json.dumps(server.command)}\nargs = {json.dumps(server.args)}\n'
        f"env = {{ {env} }}\n",
        encoding="utf-8",
    )
    return ("--config", "own.toml", "--allow", "act")


def test_text_goes_to_standard_output_and_tool_lines_to_standard_error(
    program: Run, script: Script, acting: tuple[str, ...]
) -> None:
    model = script("I look. " + call_text("act"), "Done.\n")
    done = program("-p", "Act!", "--model", model, *acting)
    assert done.stdout == "[Completed chaos__act: act is done]\n\nDone.\n"
    assert done.stderr.splitlines() == [
        "[MCP: Detected 1 tool call]",
        "[MCP: Calling tool 'act']",
        "[MCP: Tool 'act' completed]",
    ]


def test_a_pipe_gets_no_reply_that_is_discarded(program: Run, script: Script, acting: tuple[str, ...]) -> None:
    model = script("I sail. " + call_text("sail"), "Done.\n")
    done = program("-p", "Act!", "--model", model, *acting)
    assert done.stdout == "Done.\n" and "sail" in done.stderr


def test_a_reply_that_only_repeats_itself_is_ended_for_that_reason(program: Run, script: Script) -> None:
    """The line about the token limit, and its advice to write "continue", would be wrong here."""
    model = script("Write a story.\n" * 1000)
    done = program("-p", "Act!", "--model", model, "--no-servers", "--max-tokens", "100000")
    assert done.stdout.startswith("Write a story.\nWrite a story.\n") and len(done.stdout) < 400
    assert done.stderr == "Stopped: the model was repeating itself.\n"
    done = program("-p", "Act!", "--model", model, "--no-servers", "--output-format", "json")
    assert json.loads(done.stdout)["result"]["reason"] == "repetition"


def test_json_is_one_document_with_calls_and_usage(program: Run, script: Script) -> None:
    model = script("I look. " + call_text("calculate", expression="6 * 7"), "It is 42.")
    done = program("-p", "six times seven?", "--model", model, "--output-format", "json")
    assert done.stderr == ""
    document = json.loads(done.stdout)
    result = document["result"]
    seconds = result["calls"][0].pop("seconds")
    assert document["ok"] is True and seconds >= 0
    assert (result["text"], result["reason"], result["notices"]) == ("It is 42.", "answered", [])
    call = {"server": "board", "tool": "calculate", "arguments": {"expression": "6 * 7"}}
    structured = {"expression": "6 * 7", "value": "42"}
    outcome = {"status": "completed", "text": "6 * 7 = 42", "structured": structured, "user_text": ""}
    assert result["calls"] == [{**call, **outcome}]
    usage = result["usage"]
    assert len(usage["model_calls"]) == 2
    for key in ("prompt_tokens", "reused_tokens", "prefilled_tokens", "generated_tokens", "prefill_s", "generate_s"):
        assert usage[key] == pytest.approx(sum(call[key] for call in usage["model_calls"]))
    second = usage["model_calls"][1]
    assert second["reused_tokens"] + second["prefilled_tokens"] == second["prompt_tokens"]
    assert second["reused_tokens"] > 0


def test_stream_json_is_the_events_of_the_turn(program: Run, script: Script, acting: tuple[str, ...]) -> None:
    model = script("<think>Hm.</think>" + call_text("act"), "Done.")
    done = program("-p", "Act!", "--model", model, *acting, "--output-format", "stream-json")
    events: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [kind for kind, _ in groupby(event["type"] for event in events)]
    assert kinds == ["thought", "call_found", "tool_started", "tool_finished", "text", "turn_ended"]
    call, finished, end = (next(e for e in events if e["type"] == kind) for kind in (kinds[1], kinds[3], kinds[5]))
    assert call["call"] == {"name": "act", "arguments": {}, "repairs": []}
    assert (finished["result"]["status"], finished["result"]["text"]) == ("completed", "act is done")
    assert end["reason"] == "answered" and len(end["usage"]["model_calls"]) == 2


@pytest.mark.parametrize("message", ["good morning", "おはよう"])
def test_a_message_without_option_is_answered_in_a_pipe(message: str, program: Run, script: Script) -> None:
    assert program("--model", script("Hello."), message, *NO_SERVERS).stdout == "Hello.\n"


@pytest.mark.parametrize("arguments", [("-p", "-"), ()], ids=["-p -", "a pipe"])
def test_the_prompt_may_come_from_standard_input(arguments: tuple[str, ...], program: Run, script: Script) -> None:
    assert program(*arguments, "--model", script("Hello."), *NO_SERVERS, stdin="hi\n").stdout == "Hello.\n"


@pytest.mark.parametrize(
    ("allow", "status"), [((), "declined"), (("--allow", "act"), "completed")], ids=["nobody to ask", "allowed"]
)
def test_a_call_that_needs_approval_runs_only_when_it_is_allowed(
    allow: tuple[str, ...], status: str,
    program: Run, script: Script, acting: tuple[str, ...], folder: Path,
) -> None:  # fmt: skip
    model = script(call_text("act"), "Done.")
    done = program("-p", "Act!", "--model", model, *acting[:2], "--output-format", "json", *allow)
    result = json.loads(done.stdout)["result"]
    assert [call["status"] for call in result["calls"]] == [status]
    calls = [
        event
        for event in read_events(folder, "chaos")
        if event["event"] == "in" and event["message"]["method"] == "tools/call"
    ]
    assert len(calls) == (status == "completed")
    assert bool(result["notices"]) == (status == "declined")
    if status == "declined":  # the model, which would say that it is done, is not asked
        needed = "Allow it with --allow chaos__act, or in [policy] of the configuration."
        assert result["text"] == f"Not called, as it needs your permission: chaos__act. {needed}"
        assert result["suggested_calls"] == [{"tool": "chaos__act", "arguments": {}, "allow": "chaos__act"}]
    assert result["answered_by"] == ("result" if status == "declined" else "model")


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("Act!", "[Completed chaos__act: act is done]"),
        ("実行してください。", "[chaos__act は完了しました: act is done]"),
        ("请执行。", "[chaos__act 已完成：act is done]"),
    ],
)
def test_an_answer_behind_a_change_begins_with_what_was_called(
    question: str, line: str, program: Run, script: Script, acting: tuple[str, ...]
) -> None:
    """Models say that it was something else; a JSON value, and a read, have no such line."""
    model = script(call_text("act"), "The file was deleted.")
    options = ("-p", question, "--model", model, *acting, "--output-format")
    text = json.loads(program(*options, "json").stdout)["result"]["text"]
    assert text == f"{line}\n\nThe file was deleted."
    events = [json.loads(line) for line in program(*options, "stream-json").stdout.splitlines()]
    said = [event for event in events if event["type"] == "text"]
    assert said[0] == {"type": "text", "text": f"{line}\n\n", "is_report": True}
    assert "".join(event["text"] for event in said) == text
    value = script(call_text("act"), "5", "5")
    done = program("-p", question, "--model", value, *acting, "--json-schema", '{"type": "integer"}')
    assert done.stdout == "5\n"


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("--model", "missing.gguf", *NO_SERVERS), 5, "ModelError"),
        (("--config", "missing.toml"), 3, "ConfigError"),
        (("--server", "missing"), 6, "ServerNotFound"),
        (("--backend", "toaster"), 2, "UsageError"),
        (("-p", ""), 2, "UsageError"),
        (("--model", "replies.json", *NO_SERVERS), 1, "ModelError"),
    ],
    ids=["no model", "no configuration", "no server", "no backend", "no prompt", "the model fails"],
)
def test_an_error_is_one_document_with_a_type_and_an_exit_code(
    arguments: tuple[str, ...], code: int, word: str, program: Run, script: Script
) -> None:
    script()
    done = program("-p", "hi", "--output-format", "json", *arguments, code=code)
    document = json.loads(done.stdout)
    assert (document["ok"], document["error"]["type"]) == (False, word)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("replies", "answered_by", "reason", "code"),
    [
        (["Done."], "forced", "answered", 0),
        ([call_text("act")] * 2, "result", "answered", 0),
    ],
)
def test_a_turn_has_an_answer_when_its_rounds_are_used_up(
    replies: list[str], answered_by: str, reason: str, code: int, program: Run, script: Script, acting: tuple[str, ...]
) -> None:
    model = script(call_text("act"), *replies)
    done = program("-p", "x", "--model", model, *acting, "--max-steps", "1", "--output-format", "json", code=code)
    result = json.loads(done.stdout)["result"]
    assert (result["answered_by"], result["reason"]) == (answered_by, reason)
    assert result["text"]


def test_a_turn_without_a_result_and_an_answer_fails(program: Run, script: Script, acting: tuple[str, ...]) -> None:
    model = script(*[call_text("sail")] * 4)
    done = program("-p", "x", "--model", model, *acting, code=1)
    assert done.stdout == call_text("sail") + "\n" and "neither an answer nor a valid tool call" in done.stderr


HMM = "<think>\n" + "Hm, let me think about it.\n" * 30
TAGS = "Use <think> tags: the model writes <think>reasoning</think> before the answer."
ONLY_THOUGHT = "The model thought and wrote no answer. A higher max_tokens, or thinking = off, may help."


@pytest.mark.parametrize(
    ("model", "replies", "text", "reason"),
    [
        ("Qwen3-4B-Thinking-2507", ["It says 3.\n</think>\n\nIt is 3 °C."], "It is 3 °C.", "answered"),
        ("my-finetune", ["It says 3.\n</think>\n\nIt is 3 °C."], "It is 3 °C.", "answered"),
        ("my-finetune", ["<thinking>\nIt says 3.\n</thinking>\nIt is 3 °C."], "It is 3 °C.", "answered"),
        ("Qwen3-1.7B", [HMM, "It is 3 °C."], "It is 3 °C.", "answered"),
        ("Qwen3-1.7B", [HMM] * 3, ONLY_THOUGHT, "repetition"),
        ("Qwen3-1.7B", [TAGS], TAGS, "answered"),
        ("Qwen3-1.7B", ["<think> begins a thought."], "<think> begins a thought.", "answered"),
    ],
)
def test_an_answer_is_what_stands_behind_the_thought(
    model: str, replies: list[str], text: str, reason: str, program: Run, folder: Path
) -> None:
    (folder / "model.json").write_text(json.dumps({"model": model, "replies": replies}), encoding="utf-8")
    options = ("-p", "How cold is it?", "--model", "model.json", *NO_SERVERS)
    result = json.loads(program(*options, "--output-format", "json").stdout)["result"]
    assert (result["text"], result["reason"]) == (text, reason)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_turn_and_its_servers(
    number: signal.Signals, script: Script, environment: dict[str, str], folder: Path, acting: tuple[str, ...]
) -> None:
    model = script({"text": "I wait", "wait": True})
    arguments = ["-p", "x", "--model", model, *acting, "--output-format", "stream-json"]
    with fork_server.start(
        [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=folder, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["type"] == "text"
        servers = find_children(process.pid)
        process.send_signal(number)
        rest, errors = process.communicate(timeout=10)
    assert process.returncode == 128 + number
    assert json.loads(rest.splitlines()[-1])["error"]["type"] == "Interrupted"
    assert errors == ""
    assert servers and not any(map(is_there, servers))


def test_a_closed_pipe_ends_the_turn_without_an_error_message(
    script: Script, environment: dict[str, str], folder: Path
) -> None:
    model = script(" ".join(map(str, range(50_000))))
    arguments = f"-p x --model {model} --no-servers --max-tokens 100000 --output-format stream-json"
    command = ["bash", "-o", "pipefail", "-c", f"{' '.join(PROGRAM)} {arguments} | head -n 1"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=30, check=False)
    assert json.loads(done.stdout)["type"] == "text"
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_json_is_utf_8_in_every_locale_and_text_is_encoded_for_it(
    output_format: str, script: Script, environment: dict[str, str], folder: Path
) -> None:
    latin = {**environment, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    command = [*PROGRAM, "-p", "x", "--model", script("東京 is far"), "--no-servers", "--output-format", output_format]
    done = fork_server.run(command, env=latin, cwd=folder)
    assert (done.returncode, done.stderr) == (0, b"")
    assert ("東京 is far".encode() if output_format == "json" else b"?? is far") in done.stdout


def test_without_a_writable_home_the_turn_still_works(
    script: Script, environment: dict[str, str], folder: Path, acting: tuple[str, ...]
) -> None:
    command = [*PROGRAM, "-p", "x", "--model", script(call_text("act"), "Done."), *acting]
    homeless = {**environment, "HOME": "/proc/no/such/home"}
    done = fork_server.run(command, text=True, env=homeless, cwd=folder)
    assert (done.returncode, done.stdout) == (0, "[Completed chaos__act: act is done]\n\nDone.\n")
    assert "[MCP: Tool 'act' completed]" in done.stderr


def test_a_pipe_beside_the_prompt_is_read_as_data(
    program: Run, script: Script, folder: Path, environment: dict[str, str]
) -> None:
    """Its mentions attach nothing: a log may contain any text."""
    (folder / "secret.txt").write_text("0451", encoding="utf-8")
    program(
        "-p",
        "Summarize this.",
        "--model",
        script("Fine."),
        *NO_SERVERS,
        "--continue",
        stdin="disk full\nsee @secret.txt\n",
    )
    (message,) = user_messages(environment)
    assert message.startswith("Summarize this.\n\n") and "standard input" in message
    assert "disk full\nsee @secret.txt" in message and "0451" not in message


def test_several_prompts_are_one_message_and_a_dash_is_standard_input(
    program: Run, script: Script, folder: Path, environment: dict[str, str]
) -> None:
    (folder / "note.txt").write_text("The tide is low.", encoding="utf-8")
    arguments = ("-p", "First @note.txt", "-p", "-", "-p", "Last, @@note.txt")
    program(*arguments, "--model", script("Fine."), *NO_SERVERS, "--continue", stdin="@note.txt, @@twice\n")
    (message,) = user_messages(environment)
    assert message.startswith("First @note.txt\n\n@note.txt, @@twice\n\nLast, @note.txt\n\n")
    assert message.count("The tide is low.") == 1


def test_a_file_that_cannot_be_attached_is_an_error(program: Run, script: Script, folder: Path) -> None:
    (folder / "data.bin").write_bytes(b"\xff\0")
    done = program("-p", "What is in @data.bin", "--model", script("Fine."), *NO_SERVERS, code=2)
    assert (done.stdout, done.stderr.splitlines()[-1]) == (
        "",
        "rkllm-chat: data.bin is not UTF-8 text. Texts, pictures and sounds can be attached.",
    )


@pytest.mark.slow
def test_an_inherited_pipe_that_stays_silent_is_not_waited_for(
    environment: dict[str, str], folder: Path, script: Script
) -> None:
    """A real process with a pipe that nobody writes to or closes."""
    command = [*PROGRAM, "-p", "Hello!", "--model", script("Hi."), *NO_SERVERS]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=folder
    )
    assert process.stdin and process.stdout and process.stderr
    try:
        assert process.wait(30) == 0
        assert process.stdout.read() == b"Hi.\n"
        assert b"sent nothing for 3 s" in process.stderr.read()
    finally:
        process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


def test_a_quiet_answer_that_is_held_is_all_that_is_printed(
    program: Run, script: Script, acting: tuple[str, ...]
) -> None:
    model = script("I look. " + call_text("act"), "Done.\n")
    done = program("-p", "Act!", "--model", model, *acting, "--quiet", "--no-stream")
    assert (done.stdout, done.stderr) == ("[Completed chaos__act: act is done]\n\nDone.\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--timeout", "--max-cost-s"])
def test_a_turn_that_is_too_slow_ends_with_what_it_has(
    option: str, program: Run, script: Script, acting: tuple[str, ...]
) -> None:
    model = script("I look. " + call_text("act"), {"text": "Slowly", "wait": True})
    done = program("-p", "Act!", "--model", model, *acting, option, "4", "--output-format", "json", code=7)
    error = json.loads(done.stdout)["error"]
    assert (error["type"], error["details"]["phase"]) == ("TimeoutError", "turn")
    assert error["details"]["text"] == "[Completed chaos__act: act is done]\n\nSlowly"
    assert [(call["tool"], call["status"]) for call in error["details"]["calls"]] == [("act", "completed")]
    assert "--timeout" in error["details"]["hint"]


@pytest.mark.slow
def test_the_error_of_a_turn_that_is_too_slow_stands_on_a_line_of_its_own(program: Run, script: Script) -> None:
    model = script({"text": "Slowly", "wait": True})
    done = program("-p", "Act!", "--model", model, *NO_SERVERS, "--timeout", "4", code=7)
    assert (done.stdout, done.stderr) == (
        "Slowly\n",
        "rkllm-chat: The turn was not finished within 4 s. Raise --timeout.\n",
    )


def user_messages(environment: dict[str, str]) -> list[str]:
    """The messages of the user in the only saved session."""
    (session,) = (Path(environment["HOME"]) / ".local/state/rkllm-chat/sessions").glob("*.jsonl")
    records = map(json.loads, session.read_text(encoding="utf-8").splitlines())
    return [record["text"] for record in records if record.get("role") == "user"]


def test_a_prompt_of_a_file_is_sent(
    program: Run, script: Script, environment: dict[str, str], folder: Path, shelf: SessionDirectory
) -> None:
    environment.pop("RKLLM_CHAT_TRUST_PROJECT", None)
    own, of_folder = Path(environment["HOME"]) / ".config/rkllm-chat/prompts", folder / ".rkllm-chat/prompts"
    for place, name in ((own, "tide"), (of_folder, "deploy")):
        place.mkdir(parents=True)
        (place / f"{name}.md").write_text("How high is it at $1?", encoding="utf-8")
    arguments = ("--model", script("Two metres."), *NO_SERVERS, "--continue")
    assert program("-p", "/tide Hull", "-p", "/tide is text here", *arguments).stdout == "Two metres.\n"
    sent = [entry.record for entry in shelf.read(shelf.list_ids()[0]).entries if isinstance(entry.record, Message)]
    assert sent[0].text == "How high is it at Hull?\n\n/tide is text here"
    for line, code, error in (("/tide", 2, "needs the argument 1"), ("/deploy now", 3, "have not approved")):
        done = program("-p", line, *arguments, code=code)
        assert (done.stdout, error in done.stderr) == ("", True)


def test_an_image_of_the_command_line_reaches_a_model_that_sees(program: Run, folder: Path) -> None:
    (folder / "eyes.json").write_text(json.dumps({"replies": ["A flag."], "media": ["image"]}), encoding="utf-8")
    (folder / "photo.jpg").write_bytes(take_photo())
    for name in ("photo.jpg", "again.jpg"):
        (folder / name).write_bytes(take_photo())
    options = ("--image", "photo.jpg", "--image", "again.jpg", "--backend", "scripted", "--model", "eyes.json")
    done = program("-p", "What is it?", *options, *NO_SERVERS)
    assert done.stdout == "A flag.\n"
    assert [line.partition("]")[0] for line in done.stderr.splitlines()] == [
        "[Attached: photo.jpg",
        "[Attached: again.jpg",
    ]


def test_an_image_for_a_blind_model_is_an_error(program: Run, script: Script, folder: Path) -> None:
    (folder / "photo.jpg").write_bytes(take_photo())
    (folder / "text.txt").write_text("text", encoding="utf-8")
    model = ("--model", script("No."), *NO_SERVERS)
    said = {
        "photo.jpg": "does not understand pictures or sounds: photo.jpg",
        "text.txt": "text.txt is neither a picture nor a sound.",
        "nosuch.jpg": "nosuch.jpg is not a file.",
    }
    for name, words in said.items():
        done = program("-p", "What is it?", "--image", name, *model, "--output-format", "json", code=2)
        error = json.loads(done.stdout)["error"]
        assert error["type"] == "UsageError" and words in error["message"]
