"""What doctor says of recorded machines: the files of a board, an old one and a laptop, below a folder in place of /.

The trees under tests/trees were put together by hand after what boards are known to show; none was recorded by us.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from rkllm_chat.config import Rkllm, Settings, read_toml
from rkllm_chat.discover import read_settings
from rkllm_chat.doctor import CHECKS
from rkllm_chat.doctor.board import Board, run_check, size_text
from rkllm_chat.doctor.machine import SOCS, is_fast, read_chips, soc_of
from rkllm_chat.doctor.report import QUESTIONS
from rkllm_chat.templates import TEMPLATES
from stage import PROGRAM

TREES = Path(__file__).parent / "trees"
BOARD_CONFIG = "home/mara/mcp_config.toml"
MODEL = "/home/mara/models/Qwen3-1.7B-w8a8-rk3588.rkllm"
OLD_MODEL = "/models/Qwen2.5-1.5B-Instruct_W8A8_g128_RK3588.rkllm"
NPU = "sys/class/devfreq/fdab0000.npu"
VERSION = "sys/kernel/debug/rknpu/version"
NODE = "dev/dri/renderD129"
LIBRARY = "usr/lib/librkllmrt.so"

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Told = dict[str, tuple[str, str, str]]
Ask = Callable[..., Told]


@pytest.fixture(autouse=True)
def path(environment: dict[str, str]) -> None:
    """A PATH that leads to the programs of the trees."""
    environment["PATH"] = "/usr/bin:/bin"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A board in good order, to be spoilt."""
    return shutil.copytree(TREES / "rock5b", tmp_path / "board", symlinks=True)


@pytest.fixture
def ask(program: Run) -> Ask:
    """What is told of a tree: name -> state, value, advice."""

    def ask(tree: Path, *arguments: str, code: int = 0) -> Told:
        done = program("doctor", "--json", "--root", str(tree), *arguments, code=code)
        assert done.stderr == ""
        return told_by(done)

    return ask


def told_by(done: subprocess.CompletedProcess[str]) -> Told:
    return {line.pop("name"): tuple(line.values()) for line in json.loads(done.stdout)["result"]["lines"]}


def run_behind(code: str, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs doctor in a process of its own, behind a piece of Python."""
    code += f"\nimport sys\nfrom rkllm_chat.cli import main\nsys.exit(main(['doctor', *{list(arguments)!r}]))"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=30, check=False
    )


def write(tree: Path, name: str, data: str | bytes) -> None:
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_bytes(data.encode() if isinstance(data, str) else data)


def test_a_board_in_good_order_is_told_line_by_line(program: Run) -> None:
    config = str(TREES / "rock5b" / BOARD_CONFIG)
    done = program("doctor", "--root", str(TREES / "rock5b"), "--config", config)
    assert (done.stdout, done.stderr) == (
        f"""\
ok    configuration   {config}
ok    platform        RK3588 (Radxa ROCK 5B)
ok    kernel          6.1.84-8-rk2410
ok    driver          rknpu 0.9.8
ok    nodes           /dev/dri/renderD129: this user may read and write
ok    library         /usr/lib/librkllmrt.so, release 1.2.3
ok    model           {MODEL}, 22 bytes, by its name rk3588 w8a8
ok    context         4096 tokens asked for; the file's own limit shows when it is loaded
ok    memory          14.7 GB free of 16.5 GB; the model needs about 470 MB
ok    tokenizer       /home/mara/models/tokenizer.json; the package tokenizers of that machine was not asked for
ok    template        chatml, by the model's name
ok    calls           asked for as hermes, by the family qwen3
ok    NPU             1000 MHz, performance
ok    DDR             2112 MHz, performance
ok    CPU             policy0 1800 MHz performance, policy4 2400 MHz performance, policy6 2400 MHz performance
ok    temperature     npu-thermal 44 °C, bigcore0-thermal 46 °C
ok    server board    rkllm-chat itself
ok    server notes    /usr/bin/notes-server
ok    server harbour  behind a URL, not asked
""",
        "",
    )


def test_an_old_driver_and_slow_governors_are_told_with_what_to_do(program: Run) -> None:
    done = program("doctor", "--json", "--root", str(TREES / "old_driver"), "--model", OLD_MODEL, code=1)
    slower = "Published speeds are with the highest frequency; until the next start: echo performance | sudo tee"
    told = json.loads(done.stdout)
    assert told["ok"] and told["result"]["state"] == "wrong"
    assert [tuple(line.values()) for line in told["result"]["lines"]] == [
        ("configuration", "ok", "no file: everything by default", ""),
        ("platform", "ok", "RK3588 (FriendlyElec NanoPC-T6)", ""),
        ("kernel", "ok", "5.10.110", ""),
        (
            "driver",
            "wrong",
            "rknpu 0.8.2, too old",
            "The manual asks for 0.9.8. The driver is part of the kernel: update the kernel or the image.",
        ),
        ("nodes", "ok", "/dev/dri/renderD129: this user may read and write", ""),
        ("library", "ok", "/usr/lib/librkllmrt.so, release 1.1.4", ""),
        (
            "model",
            "look",
            f"{OLD_MODEL}, 22 bytes, by its name rk3588 w8a8_g128",
            "Groups cost speed here: published are about half (g128) to four fifths (g512) of plain w8a8.",
        ),
        ("context", "ok", "4096 tokens, the default; the file's own limit shows when it is loaded", ""),
        ("memory", "ok", "1.0 GB free of 8.2 GB; the model needs about 470 MB", ""),
        (
            "tokenizer",
            "look",
            "no tokenizer.json beside the model",
            "Without it prompts are sent as text: it runs, but what a long talk has in common may be evaluated anew."
            " It comes with the original model.",
        ),
        ("template", "ok", "chatml, by the model's name", ""),
        ("calls", "ok", "asked for as hermes, by the family qwen2.5", ""),
        ("NPU", "look", "300 MHz, rknpu_ondemand", f"{slower} /{NPU}/governor"),
        ("DDR", "look", "528 MHz, dmc_ondemand", f"{slower} /sys/class/devfreq/dmc/governor"),
        (
            "CPU",
            "look",
            "policy0 408 MHz ondemand, policy4 408 MHz ondemand, policy6 408 MHz ondemand",
            f"{slower} /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
        ),
        (
            "temperature",
            "look",
            "npu-thermal 83 °C, bigcore0-thermal 87 °C",
            "It is slowed down when it is hot: a heat sink, a fan, a pause.",
        ),
        ("server board", "ok", "rkllm-chat itself", ""),
    ]


def test_a_laptop_has_no_lines_of_an_npu(program: Run) -> None:
    done = program("doctor", "--root", str(TREES / "laptop"))
    assert done.stdout == (
        """\
ok    configuration  no file: everything by default
ok    platform       x86_64, no Rockchip NPU: models run through llama.cpp
ok    kernel         6.12.48+deb13-amd64
ok    model          tiny-tools.gguf, 6.2 MB
ok    context        the default; the model has 2048
ok    memory         11.3 GB free of 16.5 GB; the model needs about 6.2 MB
ok    temperature    x86-pkg-temp 52 °C
ok    server board   rkllm-chat itself
"""
    )


def test_advice_stands_below_its_line(program: Run) -> None:
    shown = program("doctor", "--root", str(TREES / "old_driver"), code=1).stdout.splitlines()
    at = shown.index("wrong driver         rknpu 0.8.2, too old")
    assert shown[at + 1].startswith("                     The manual asks for 0.9.8.")


def test_this_very_machine_is_looked_at_without_a_word_on_standard_error(program: Run) -> None:
    done = subprocess.run([*PROGRAM, "doctor", "--json"], capture_output=True, text=True, timeout=30, check=False)
    told = json.loads(done.stdout)["result"]
    assert done.stderr == "" and done.returncode == (told["state"] == "wrong")
    assert {"configuration", "platform", "kernel", "memory"} <= {line["name"] for line in told["lines"]}
    assert program("doctor").stdout


def test_json_is_utf_8_that_is_not_escaped_whatever_the_locale(program: Run, environment: dict[str, str]) -> None:
    environment.update(LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert "52 °C" in program("doctor", "--json", "--root", str(TREES / "laptop")).stdout


@pytest.mark.parametrize("form", [(), ("--json",), ("--board-report",)], ids=["text", "json", "report"])
def test_nothing_is_written(form: tuple[str, ...], board: Path, program: Run, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    program("doctor", "--root", str(board), "--config", str(board / BOARD_CONFIG), *form)
    assert snapshot(tmp_path) == before


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every path below a folder with its mode, its time of change and its contents."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


# --- the command line


def test_help_tells_the_options(program: Run) -> None:
    shown = program("doctor", "--help").stdout
    for option in ("--json", "--board-report", "--root", "--config", "--model"):
        assert option in shown
    assert "doctor" in program("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (("--root", "/no/such/folder"), "There is no folder /no/such/folder"),
        (("--json", "--board-report"), "not allowed with"),
        (("--no-such-option",), "unrecognized arguments"),
    ],
)
def test_a_wrong_command_line_is_told_with_exit_code_2(arguments: tuple[str, ...], cause: str, program: Run) -> None:
    done = program("doctor", *arguments, code=2)
    assert cause in done.stderr and done.stdout == ""


def test_with_json_a_missing_root_is_told_as_json(program: Run) -> None:
    done = program("doctor", "--json", "--root", "/no/such/folder", code=2)
    error = {"type": "UsageError", "message": "There is no folder /no/such/folder.", "details": {}}
    assert (json.loads(done.stdout), done.stderr) == ({"ok": False, "error": error}, "")


def test_a_look_imports_neither_the_sdk_nor_an_engine(environment: dict[str, str]) -> None:
    heavy = ("mcp", "llama_cpp", "tokenizers", "prompt_toolkit", "rich", "pydantic", "jinja2", "jsonschema", "numpy")
    code = (
        f"import atexit, sys; atexit.register(lambda: print([n for n in {heavy} if n in sys.modules], file=sys.stderr))"
    )
    done = run_behind(code, environment, "--root", str(TREES / "rock5b"))
    assert done.stdout.startswith("ok ") and done.stderr == "[]\n"


# --- configuration and servers


def test_a_broken_configuration_is_a_line_and_the_rest_goes_on(board: Path, ask: Ask) -> None:
    write(board, "broken.toml", '[chat]\nmodle = "x"\n')
    told = ask(board, "--config", str(board / "broken.toml"), "--model", MODEL, code=1)
    state, value, advice = told["configuration"]
    assert (state, advice) == ("wrong", "The rest is looked at as if there were no configuration.")
    assert value == f'{board}/broken.toml: unknown key "chat.modle". Did you mean "model"?'
    assert told["driver"][0] == told["model"][0] == told["temperature"][0] == "ok"


def test_a_configuration_that_is_not_there_is_wrong(ask: Ask) -> None:
    told = ask(TREES / "laptop", "--config", "none.toml", code=1)
    assert told["configuration"][1].startswith("none.toml: No such file or directory.")


def test_the_program_of_each_server_is_looked_for(board: Path, ask: Ask) -> None:
    (board / "usr/bin/notes-server").rename(board / "opt-notes")
    config = (board / BOARD_CONFIG).read_text(encoding="utf-8")
    config += '[[servers]]\nname = "off"\ncommand = "none"\nenabled = false\n'
    config += '[[servers]]\nname = "whole"\ncommand = "/opt-notes"\n'
    config += '[[servers]]\nname = "own"\ncommand = "opt-notes"\nenv = { PATH = "/" }\n'
    config += '[[servers]]\nname = "lost"\ncommand = "/opt-notes"\ncwd = "/no/folder"\n'
    write(board, BOARD_CONFIG, config)
    told = ask(board, "--config", str(board / BOARD_CONFIG), code=1)
    advice = "Is it installed and on the PATH? A relative path counts from the current folder."
    assert {name: line for name, line in told.items() if name.startswith("server")} == {
        "server board": ("ok", "rkllm-chat itself", ""),
        "server notes": ("wrong", "the command notes-server cannot be found", advice),
        "server harbour": ("ok", "behind a URL, not asked", ""),
        "server off": ("ok", "switched off", ""),
        "server whole": ("ok", "/opt-notes", ""),
        "server own": ("ok", "/opt-notes", ""),
        "server lost": ("wrong", "there is no folder /no/folder", "Correct its cwd."),
    }


def test_what_the_servers_that_ship_need_is_looked_for(folder: Path, program: Run) -> None:
    config = """
[[servers]]
name = "claude"
command = "rkllm-chat"
args = ["serve", "claude"]
env = { PATH = "%s" }
[[servers]]
name = "remote"
command = "rkllm-chat"
args = ["serve", "remote", "--url", "http://h/v1", "--model", "m", "--key-env=KEY"]
env = { %s = "x" }
"""

    def told(path: Path, variable: str, code: int) -> dict[str, str]:
        (folder / "mcp_config.toml").write_text(config % (path, variable), encoding="utf-8")
        lines = json.loads(program("doctor", "--json", code=code).stdout)["result"]["lines"]
        told = {line["name"]: f"{line['state']}: {line['value']}" for line in lines}
        return {name: value for name, value in told.items() if name.startswith("server")}

    without = told(folder / "empty", "OTHER", 1)
    assert without["server remote"] == "wrong: rkllm-chat itself, but its env has no KEY"
    installed = [path for path in ("/usr/local/bin/claude", "/usr/bin/claude") if Path(path).exists()]
    expected = f"ok: rkllm-chat itself, with {installed[0]}" if installed else "wrong: rkllm-chat itself, but no Claude"
    assert without["server claude"].startswith(expected)
    (folder / "claude").touch(0o755)
    assert told(folder, "KEY", 0) == {
        "server claude": f"ok: rkllm-chat itself, with {folder}/claude",
        "server remote": "ok: rkllm-chat itself",
    }


# --- the machine


@pytest.mark.parametrize(
    ("compatible", "chip"),
    [
        (b"radxa,rock-5b\0rockchip,rk3588\0", "rk3588"),
        (b"khadas,edge2\0rockchip,rk3588s\0", "rk3588"),
        (b"rockchip,rk3588-evb1-lp4-v10\0rockchip,rk3588\0", "rk3588"),
        (b"radxa,rock-4d\0rockchip,rk3576\0", "rk3576"),
        (b"rockchip,rk3562\0", "rk3562"),
        (b"rockchip,rv1126b-evb1-v10\0rockchip,rv1126b\0", "rv1126b"),
        (b"radxa,rock3a\0rockchip,rk3568\0", ""),
        (b"raspberrypi,5-model-b\0brcm,bcm2712\0", ""),
    ],
)
def test_the_chip_is_the_one_of_the_device_tree(compatible: bytes, chip: str, tmp_path: Path) -> None:
    write(tmp_path, "sys/firmware/devicetree/base/compatible", compatible)
    soc = soc_of(read_chips(Board(tmp_path, Settings(), {})))
    assert (soc.name if soc else "") == chip


def test_a_chip_without_rkllm_is_to_be_looked_at_and_has_no_lines_of_an_npu(board: Path, ask: Ask) -> None:
    write(board, "proc/device-tree/compatible", b"radxa,rock3a\0rockchip,rk3568\0")
    told = ask(board)
    assert told["platform"][:2] == ("look", "RK3568: RKLLM does not run on it")
    assert not {"driver", "nodes", "library", "NPU", "DDR", "CPU"} & told.keys()


@pytest.mark.parametrize(
    ("release", "rocket", "state"),
    [("5.10.160-rockchip", False, "ok"), ("6.18.2", False, "look"), ("6.18.2", True, "wrong")],
)
def test_the_kernel_must_be_the_vendors(release: str, rocket: bool, state: str, board: Path, ask: Ask) -> None:
    write(board, "proc/sys/kernel/osrelease", f"{release}\n")
    if rocket:
        (board / "sys/module/rocket").mkdir(parents=True)
    assert ask(board, code=int(state == "wrong"))["kernel"][0] == state


@pytest.mark.parametrize(
    ("place", "text", "told"),
    [
        (VERSION, "RKNPU driver: v0.9.8\n", ("ok", "rknpu 0.9.8")),
        ("proc/rknpu/version", "RKNPU driver: v0.9.10\n", ("ok", "rknpu 0.9.10")),
        ("sys/module/rknpu/version", "1.0.0\n", ("ok", "rknpu 1.0.0")),
        (VERSION, "RKNPU driver: v0.9.6\n", ("look", "rknpu 0.9.6, older than 0.9.8")),
        (VERSION, "RKNPU driver: v0.8.8\n", ("wrong", "rknpu 0.8.8, too old")),
        (VERSION, "rubbish\n", ("look", "cannot be known: the driver calls its version 'rubbish'")),
        ("sys/bus/platform/drivers/RKNPU/uevent", "", ("look", "rknpu, which does not show its version")),
    ],
)
def test_the_driver_is_found_where_kernels_show_it(
    place: str, text: str, told: tuple[str, str], board: Path, ask: Ask
) -> None:
    (board / VERSION).unlink()
    write(board, place, text)
    assert ask(board, code=int(told[0] == "wrong"))["driver"][:2] == told


def test_no_driver_at_all_is_wrong(board: Path, ask: Ask) -> None:
    (board / VERSION).unlink()
    shutil.rmtree(board / NPU)
    shutil.rmtree(board / "dev")
    told = ask(board, code=1)
    assert told["driver"][:2] == ("wrong", "none")
    assert told["nodes"][:2] == ("wrong", "neither /dev/dri/renderD* nor /dev/rknpu")
    assert told["NPU"][:2] == ("look", "the kernel does not show its frequency")


def test_where_the_kernel_does_not_say_which_node_is_the_npus_all_count(board: Path, ask: Ask) -> None:
    shutil.rmtree(board / "sys/class/drm")
    write(board, "dev/rknpu", "")
    told = ask(board)["nodes"][1]
    assert told == "/dev/dri/renderD128, /dev/dri/renderD129, /dev/rknpu: this user may read and write"


WITHOUT_CAPABILITIES = """
import ctypes
header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0
"""


def look_without_privileges(tree: Path, environment: dict[str, str]) -> Told:
    """Looks at a tree with no capability left, so that file modes count for root too."""
    done = run_behind(WITHOUT_CAPABILITIES, environment, "--json", "--root", str(tree))
    assert done.returncode in (0, 1) and done.stderr == "", done.stderr
    return told_by(done)


def test_a_file_for_root_alone_is_told_with_how_root_reads_it(board: Path, environment: dict[str, str]) -> None:
    assert look_without_privileges(board, environment)["driver"] == ("ok", "rknpu 0.9.8", "")
    (board / VERSION).chmod(0)
    told = look_without_privileges(board, environment)["driver"]
    assert told == ("look", f"/{VERSION} is not for this user to read", f"Root can read it: sudo cat /{VERSION}")


def test_a_folder_for_root_alone_is_told_too(board: Path, environment: dict[str, str]) -> None:
    (board / "sys/kernel/debug").chmod(0)
    try:
        told = look_without_privileges(board, environment)["driver"]
    finally:
        (board / "sys/kernel/debug").chmod(0o755)
    assert told[:2] == ("look", f"/{VERSION} is not for this user to read")


def test_a_node_that_is_not_for_this_user_is_wrong(board: Path, environment: dict[str, str]) -> None:
    assert look_without_privileges(board, environment)["nodes"][0] == "ok"
    (board / NODE).chmod(0o440)
    told = look_without_privileges(board, environment)["nodes"]
    advice = 'Join their groups, then log in again: sudo usermod -aG render,video "$USER"'
    assert told == ("wrong", f"/{NODE}: this user may not read and write", advice)


@pytest.mark.parametrize(
    ("governor", "current", "steps", "fast"),
    [
        ("performance", 300, "300 1000", True),
        ("userspace", 1000, "300 1000", True),
        ("userspace", 2352, "408 2400", True),
        ("userspace", 300, "300 1000", False),
        ("simple_ondemand", 1000, "300 1000", False),
    ],
)
def test_fast_is_performance_or_userspace_at_the_top(governor: str, current: int, steps: str, fast: bool) -> None:
    assert is_fast(governor, current, steps) == fast


def test_a_firmware_that_does_not_scale_the_memory_is_to_be_looked_at(board: Path, ask: Ask) -> None:
    shutil.rmtree(board / "sys/class/devfreq/dmc")
    state, value, advice = ask(board)["DDR"]
    assert (state, value) == ("look", "no /sys/class/devfreq/dmc: this firmware does not scale the memory")
    assert "have not reached the published speeds" in advice


def test_a_sensor_that_sleeps_hides_no_other(board: Path, ask: Ask) -> None:
    write(board, "sys/class/thermal/thermal_zone6/temp", "")
    assert ask(board)["temperature"] == ("ok", "bigcore0-thermal 46 °C", "")


# --- the library


@pytest.mark.parametrize(
    ("text", "state", "value"),
    [
        ("RKLLM SDK (version: 1.3.0 (2026-06-17))", "ok", f"/{LIBRARY}, release 1.3.0"),
        ("RKLLM SDK (version: 9.9.9 (2031-01-01))", "wrong", f"/{LIBRARY}: release 9.9.9 is not known here"),
        ("RKNN SDK, another library", "wrong", f"/{LIBRARY}: it does not name its release"),
        ("", "wrong", f"/{LIBRARY}: it does not name its release"),
    ],
)
def test_the_release_of_the_library_must_be_known(text: str, state: str, value: str, board: Path, ask: Ask) -> None:
    write(board, LIBRARY, text)
    told = ask(board, code=int(state == "wrong"))["library"]
    assert told[:2] == (state, value)
    assert ("Known are 1.1.0" in told[2]) == (state == "wrong")


def test_a_board_without_the_library_is_wrong(board: Path, ask: Ask) -> None:
    (board / LIBRARY).unlink()
    state, value, advice = ask(board, code=1)["library"]
    assert (state, value) == ("wrong", "no librkllmrt.so") and '[rkllm] library = "PATH"' in advice


def test_a_library_that_the_settings_name_is_looked_for_in_the_tree(board: Path, ask: Ask) -> None:
    (board / "opt").mkdir()
    (board / LIBRARY).rename(board / "opt/librkllmrt.so")
    for named, told in (
        ("/opt", ("ok", "/opt/librkllmrt.so, release 1.2.3")),
        ("/mnt", ("wrong", "/mnt is not there")),
    ):
        write(board, "own.toml", f'[rkllm]\nlibrary = "{named}"\n')
        assert ask(board, "--config", str(board / "own.toml"), code=int(told[0] == "wrong"))["library"][:2] == told


def test_a_library_that_names_libomp_wants_it_somewhere(board: Path, ask: Ask) -> None:
    write(board, LIBRARY, "RKLLM SDK (version: 1.2.3)\0libomp.so\0")
    assert ask(board)["libomp"][:2] == ("look", "librkllmrt.so names libomp.so, which is in none of the usual places")
    write(board, "usr/lib/libomp.so.5", "")
    assert "libomp" in ask(board)
    write(board, "usr/lib/aarch64-linux-gnu/libomp.so", "")
    assert "libomp" not in ask(board)


# --- the model


@pytest.mark.parametrize(
    ("name", "state", "value"),
    [
        ("Qwen3-1.7B-w8a8-rk3588.rkllm", "ok", "by its name rk3588 w8a8"),
        ("qwen2.5-1.5b-rk3588s-W8A8-opt-1.rkllm", "ok", "by its name rk3588 w8a8"),
        ("qwen3.rkllm", "ok", "its name does not say for which chip"),
        ("qwen3-rk3588-w8a8-g128.rkllm", "look", "by its name rk3588 w8a8_g128"),
        ("Qwen3_W4A16_RK3576.rkllm", "wrong", "by its name rk3576 w4a16, but this is rk3588"),
        ("qwen3-w4a16.rkllm", "wrong", "by its name w4a16, but rk3588 cannot run w4a16"),
    ],
)
def test_a_models_name_tells_chip_and_quantization(name: str, state: str, value: str, board: Path, ask: Ask) -> None:
    write(board, f"m/{name}", "x")
    told = ask(board, "--model", f"/m/{name}", code=int(state == "wrong"))["model"]
    assert told[:2] == (state, f"/m/{name}, 1 bytes, {value}")
    assert bool(told[2]) == (state != "ok")


def test_every_chip_runs_what_is_converted_for_it() -> None:
    assert {soc.name: "w8a8" in soc.quantizations for soc in SOCS} == dict.fromkeys(
        ("rk3588", "rk3576", "rk3562", "rv1126b"), True
    )
    assert [soc.name for soc in SOCS if "w4a16" in soc.quantizations] == ["rk3576", "rv1126b"]


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        ("none.rkllm", None, "No such file or directory"),
        ("empty-rk3588.rkllm", b"", "the file is empty"),
        (
            "lfs.rkllm",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "a Git LFS pointer, not the model",
        ),
        ("page.rkllm", b"\n<!DOCTYPE html><html>", "a web page, not the model"),
        ("other.gguf", b"PK\3\4", "neither .rkllm nor a GGUF file (it begins with b'PK\\x03\\x04')"),
    ],
)
def test_a_file_that_cannot_be_a_model_is_wrong(
    name: str, data: bytes | None, value: str, board: Path, ask: Ask
) -> None:
    if data is not None:
        write(board, f"m/{name}", data)
    told = ask(board, "--model", f"/m/{name}", code=1)["model"]
    assert told[:2] == ("wrong", f"/m/{name}: {value}") and told[2]


def test_a_folder_and_a_pipe_in_place_of_a_model_are_told_and_not_waited_for(board: Path, ask: Ask) -> None:
    (board / "m").mkdir()
    os.mkfifo(board / "pipe.rkllm")
    for model in ("/m", "/pipe.rkllm"):
        assert ask(board, "--model", model, code=1)["model"][:2] == ("wrong", f"{model}: not a plain file")


def test_an_npu_model_is_wrong_on_a_laptop(tmp_path: Path, ask: Ask) -> None:
    laptop = shutil.copytree(TREES / "laptop", tmp_path / "laptop")
    write(laptop, "m.rkllm", "x")
    told = ask(laptop, "--model", "/m.rkllm", code=1)["model"]
    assert told == ("wrong", "/m.rkllm, 1 bytes: .rkllm runs on a Rockchip NPU only", "Give a .gguf file here.")


def test_the_model_that_ships_is_to_be_looked_at_on_a_board(board: Path, ask: Ask) -> None:
    state, value, advice = ask(board)["model"]
    assert (state, value) == ("look", "tiny-tools.gguf, 6.2 MB: the small one that ships, which runs on the CPU")
    assert ".rkllm" in advice


@pytest.mark.parametrize(
    ("backend", "model", "state", "value"),
    [
        ("rkllm", "", "wrong", "none, and the NPU needs one of its own"),
        ("auto", "replies.json", "ok", "replies.json: no file to look at"),
        ("auto", "https://host.example/v1", "ok", "https://host.example/v1: no file to look at"),
    ],
)
def test_what_is_no_file_is_not_looked_at(
    backend: str, model: str, state: str, value: str, board: Path, ask: Ask
) -> None:
    write(board, "own.toml", f'[chat]\nbackend = "{backend}"\nmodel = "{model}"\n')
    told = ask(board, "--config", str(board / "own.toml"), code=int(state == "wrong"))
    assert told["model"][:2] == (state, value) and "context" not in told


@pytest.mark.parametrize(
    ("model", "asked", "state", "value"),
    [
        (MODEL, 16384, "ok", "16384 tokens asked for; the file's own limit shows when it is loaded"),
        (MODEL, 16416, "wrong", "16416 tokens asked for"),
        (MODEL, 1000, "look", "1000 tokens asked for"),
        ("/m.gguf", 0, "ok", "the default; the model has 40960"),
        ("/m.gguf", 8192, "ok", "8192 tokens asked for; the model has 40960"),
        ("/m.gguf", 65536, "look", "65536 tokens asked for, the model has 40960"),
        ("/bare.gguf", 8192, "ok", "8192 tokens asked for"),
    ],
)
def test_the_context_is_held_against_what_the_model_can(
    model: str, asked: int, state: str, value: str, board: Path, ask: Ask
) -> None:
    write(board, "m.gguf", b"GGUF" + b"\x14\0\0\0\0\0\0\0qwen3.context_length\4\0\0\0" + (40960).to_bytes(4, "little"))
    write(board, "bare.gguf", b"GGUF")
    write(board, "own.toml", f'[chat]\nmodel = "{model}"\ncontext_tokens = {asked}\n')
    told = ask(board, "--config", str(board / "own.toml"), code=int(state == "wrong"))["context"]
    assert told[:2] == (state, value) and bool(told[2]) == (state != "ok")


def grow(path: Path, size: int) -> None:
    """Makes a file that large, without its contents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(b"x")
        file.truncate(size)


@pytest.mark.parametrize(
    ("gigabytes", "memory", "value"),
    [
        (1, "ok", "1.5 GB"),
        (15, "look", "15.5 GB"),
        (20, "wrong", "20.5 GB"),
    ],
)
def test_memory_is_held_against_the_model(gigabytes: int, memory: str, value: str, board: Path, ask: Ask) -> None:
    grow(board / "m-rk3588.rkllm", gigabytes * 10**9)
    told = ask(board, "--model", "/m-rk3588.rkllm", code=1)  # the name does not tell the template
    assert told["memory"][:2] == (memory, f"14.7 GB free of 16.5 GB; the model needs about {value}")
    assert ("domain" in told) == (gigabytes > 4)
    assert told.get("domain", ("look",))[0] == "look"


def test_the_template_must_be_known(board: Path, ask: Ask) -> None:
    write(board, "m/known-rk3588.rkllm", "x")
    write(board, "m/own.jinja", "{{ messages }}")
    for template, state, value in (
        ("auto", "wrong", "the model's name does not tell it"),
        ("none", "wrong", "there is none called none"),
        ("llama3", "ok", "llama3, as set"),
        ("/m/own.jinja", "ok", "/m/own.jinja"),
        ("runtime", "ok", "the model's own, known to the runtime alone"),
    ):
        write(board, "own.toml", f'[chat]\nmodel = "/m/known-rk3588.rkllm"\n[rkllm]\ntemplate = "{template}"\n')
        told = ask(board, "--config", str(board / "own.toml"), code=int(state == "wrong"))
        assert told["template"][:2] == (state, value)


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        ("", "asked for as json, by the family unknown"),
        ('[rkllm]\ntemplate = "/m/own.jinja"\n', "asked for as hermes, by the family hermes"),
        ('tool_format = "xml"\n', "asked for as xml, as set"),
        ("[rkllm]\nnative_tools = true\n", "in the model's own way"),
    ],
)
def test_how_calls_are_asked_for_is_told(lines: str, value: str, board: Path, ask: Ask) -> None:
    write(board, "m/some-rk3588.rkllm", "x")
    write(board, "m/own.jinja", "{% if tools %}<tool_call>{% endif %}")
    write(board, "own.toml", f'[chat]\nmodel = "/m/some-rk3588.rkllm"\n{lines}')
    code = int("template" not in lines and "native" not in lines)  # the name does not tell the template
    assert ask(board, "--config", str(board / "own.toml"), code=code)["calls"] == ("ok", value, "")


def test_the_package_tokenizers_is_asked_for_on_this_machine(environment: dict[str, str], tmp_path: Path) -> None:
    for name in ("m.rkllm", "tokenizer.json", "packages/tokenizers/__init__.py"):
        write(tmp_path, name, "{}")
    arguments = ("--json", "--model", str(tmp_path / "m.rkllm"))
    without = told_by(run_behind("import sys; sys.modules['tokenizers'] = None", environment, *arguments))["tokenizer"]
    value = f"{tmp_path}/tokenizer.json, but the package tokenizers is not installed"
    assert without[:2] == ("look", value) and without[2].startswith("pip install tokenizers.")
    environment["PYTHONPATH"] = str(tmp_path / "packages")
    installed = told_by(run_behind("", environment, *arguments))["tokenizer"]
    assert installed == ("ok", f"{tmp_path}/tokenizer.json, and the package tokenizers", "")


def test_without_llama_cpp_a_gguf_is_told_what_to_install_on_this_machine(environment: dict[str, str]) -> None:
    hidden = "import sys; sys.modules['llama_cpp'] = None"
    assert "engine" not in told_by(run_behind("", environment, "--json"))
    assert "engine" not in told_by(run_behind(hidden, environment, "--json", "--root", str(TREES / "laptop")))
    told = told_by(run_behind(hidden, environment, "--json"))["engine"]
    assert told[:2] == ("wrong", "llama-cpp-python, which runs .gguf files, is not installed")


# --- what nobody expects


def test_an_empty_tree_is_told_without_a_crash(tmp_path: Path, ask: Ask) -> None:
    told = ask(tmp_path)
    assert told["platform"][1] == "an unknown processor, no Rockchip NPU: models run through llama.cpp"
    assert told["kernel"][:2] == ("look", "cannot be known: /proc/sys/kernel/osrelease: not there")
    assert told["memory"][:2] == ("look", "cannot be known: /proc/meminfo: not there")


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("proc/device-tree/compatible", "platform"),
        ("proc/sys/kernel/osrelease", "kernel"),
        (VERSION, "driver"),
        (f"{NPU}/governor", "NPU"),
        ("sys/class/devfreq/dmc/cur_freq", "DDR"),
        ("sys/devices/system/cpu/cpufreq/policy4/scaling_governor", "CPU"),
        ("proc/meminfo", "memory"),
    ],
)
@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_stands_in_place_of_a_file_is_a_line_to_look_at(
    kind: str, place: str, name: str, board: Path, ask: Ask
) -> None:
    (board / place).unlink()
    (board / place).mkdir() if kind == "folder" else os.mkfifo(board / place)
    assert ask(board)[name] == ("look", f"cannot be known: /{place}: not a plain file", "")


def test_a_link_that_leads_out_of_the_tree_is_not_followed(board: Path, ask: Ask, tmp_path: Path) -> None:
    write(tmp_path, "secret", "0.9.8 is my password")
    (board / VERSION).unlink()
    (board / VERSION).symlink_to(tmp_path / "secret")
    assert ask(board)["driver"][:2] == ("look", "rknpu, which does not show its version")


def test_a_link_within_the_tree_is_followed(board: Path, ask: Ask) -> None:
    (board / "sys/devices/npu").parent.mkdir(parents=True, exist_ok=True)
    (board / NPU).rename(board / "sys/devices/npu")
    (board / NPU).symlink_to("../../devices/npu")
    assert ask(board)["NPU"] == ("ok", "1000 MHz, performance", "")


def test_whatever_a_file_holds_every_check_gives_its_lines(board: Path) -> None:
    """In one process: each file of the board in turn is emptied, filled with bytes, with a long number."""
    settings = Settings(model=MODEL)
    for path in [path for path in board.rglob("*") if path.is_file()]:
        whole = path.read_bytes()
        for data in (b"", b"\xff\0\xfe\x1b[31m\n" * 50, b"9" * 1000, b"MemTotal: " + b"9" * 400 + b" kB"):
            path.write_bytes(data)
            seen = Board(board, settings, {"PATH": "/usr/bin"})
            lines = [line for name, check in CHECKS.items() for line in run_check(name, check, seen)]
            assert {line.state for line in lines} <= {"ok", "look", "wrong"} and len(lines) >= 7, path
        path.write_bytes(whole)


def test_what_a_board_calls_itself_cannot_steer_the_terminal(board: Path, program: Run) -> None:
    write(board, "proc/device-tree/model", b"\x1b[31mROCK\x9b\n\rwrong x | y\0")
    shown = program("doctor", "--root", str(board)).stdout
    assert "ok    platform       RK3588 (\\x1b[31mROCK� wrong x | y)\n" in shown
    report = program("doctor", "--root", str(board), "--board-report").stdout
    assert "| RK3588 (\\x1b[31mROCK� wrong x \\| y) |" in report


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (4_169_312, "4.2 MB"),
        (470e6, "470 MB"),
        (2.34e9, "2.3 GB"),
        (3e12, "3000 GB"),
    ],
)
def test_sizes_are_said_as_people_say_them(size: float, text: str) -> None:
    assert size_text(size) == text


# --- the report


@pytest.fixture
def report(board: Path, program: Run, environment: dict[str, str], tmp_path: Path) -> str:
    """The report of a board whose owner is called Mara, and whose machine is called anchor."""
    home = tmp_path / "home/mara"
    home.mkdir(parents=True)
    environment.update(HOME=str(home), USER="mara", LOGNAME="mara")
    config = (board / BOARD_CONFIG).read_text(encoding="utf-8")
    config = config.replace('"notes-server"', '"/home/mara/anchor/notes"')
    write(home, "own.toml", config)
    return program("doctor", "--board-report", "--root", str(board), "--config", str(home / "own.toml"), code=1).stdout


def test_the_report_has_every_line_and_every_open_question(report: str) -> None:
    rows = re.findall(r"^\| (ok|look|wrong) \| ([^|]*) \|", report, flags=re.MULTILINE)
    assert [name for _, name in rows][:6] == ["configuration", "platform", "kernel", "driver", "nodes", "library"]
    assert ("wrong", "server notes") in rows and len(rows) == 19
    assert re.findall(r"^### \((.)\)", report, flags=re.MULTILINE) == list("abcdefghij") == list(QUESTIONS)
    assert report.count("\nAnswer:\n") == report.count("\nLook for: ") == 10


def test_the_report_names_nobody(report: str) -> None:
    assert "mara" not in report and "anchor" not in report and "secret" not in report
    assert "harbour.example" not in report
    assert "| ok | model | ~/models/Qwen3-1.7B-w8a8-rk3588.rkllm," in report
    assert "the command ~/<host>/notes cannot be found" in report


def test_the_report_does_not_repeat_what_is_wrong_in_a_configuration(
    program: Run, folder: Path, environment: dict[str, str]
) -> None:
    write(folder, "own.toml", '[chat]\nmax_steps = "hush"\n')
    arguments = ("--root", str(TREES / "laptop"), "--config", "own.toml")
    assert "hush" in program("doctor", *arguments, code=1).stdout
    assert environment["HOME"] not in (told := program("doctor", "--board-report", *arguments, code=1).stdout)
    assert "hush" not in told and "| wrong | configuration | cannot be used;" in told


def test_what_the_report_asks_to_run_exists(report: str, program: Run) -> None:
    help_text = program("--help").stdout
    commands = [line for line in report.splitlines() if line.startswith("rkllm-chat ")]
    options = {option for line in commands for option in re.findall(r"(?<![\w-])--?[a-z][\w-]*", line)}
    assert len(commands) >= 6 and options
    assert not {option for option in options if option not in help_text}


def test_the_shell_lines_of_the_report_are_shell(report: str) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", report, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 9
    for block in blocks:
        subprocess.run(["bash", "-n", "-c", block], check=True, timeout=10)


def test_the_configuration_that_the_report_writes_is_read(report: str, folder: Path) -> None:
    line = next(line for line in report.splitlines() if line.startswith("printf "))
    subprocess.run(["bash", "-c", line], check=True, timeout=10, cwd=folder)
    assert read_settings(folder / "native.toml", {}).rkllm.native_tools


# --- the page


def test_the_page_about_models_shows_every_key_of_rkllm_and_every_template() -> None:
    page = (TREES.parents[1] / "models/README.md").read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    shown = [read_toml(block, "models/README.md", {"HOME": "/home/someone"}) for block in blocks]
    keys = {key for settings in shown for key in settings.written if key.startswith("rkllm.")}
    assert keys == {f"rkllm.{field.name}" for field in fields(Rkllm)}
    assert not [name for name in TEMPLATES if f"`{name}`" not in page]
    assert not [soc.name for soc in SOCS if soc.name.upper() not in page]
