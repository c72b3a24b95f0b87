"""What doctor reports of a board, with changes, and of a laptop, whose files lie below a folder in place of /.

The trees under tests/trees were written by hand after what boards are known to show; none was recorded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

import fork_server
from rkllm_chat.cli import doctor
from rkllm_chat.cli.doctor import CHECKS
from rkllm_chat.cli.doctor.board import Board, format_size, run_check
from rkllm_chat.cli.doctor.machine import SOCS, is_at_full_speed, match_soc, read_chips
from rkllm_chat.cli.doctor.tool_probes import CONVERSATIONS, PROBES
from rkllm_chat.config.settings import Rkllm, Settings, read_toml
from rkllm_chat.prompt.chat_templates import TEMPLATES
from stage import PROGRAM, Run, Screen, Script
from vision_models import build_gguf

TREES = Path(__file__).parents[1] / "trees"
SHIPPED_TOKENIZER = Path(__file__).parents[2] / "models/tiny-tools/tokenizer.json"
BOARD_CONFIG = "home/mara/mcp_config.toml"
MODEL = "/home/mara/models/Qwen3-1.7B-w8a8-rk3588.rkllm"
NPU = "sys/class/devfreq/fdab0000.npu"
VERSION = "sys/kernel/debug/rknpu/version"
NODE = "dev/dri/renderD129"
LIBRARY = "usr/lib/librkllmrt.so"

Report = dict[str, tuple[str, str, str]]
Ask = Callable[..., Report]
Data = str | bytes | int | None
Files = dict[str, Data]
SLOW: Files = {
    f"{NPU}/governor": "rknpu_ondemand\n",
    f"{NPU}/cur_freq": "300000000\n",
    **{f"sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor": "ondemand\n" for number in (0, 4, 6)},
}
"""Governors of a board as they are before anybody has changed them."""


@pytest.fixture(autouse=True)
def path(environment: dict[str, str]) -> None:
    """A PATH that names the folders of programs in the trees."""
    environment["PATH"] = "/usr/bin:/bin"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A copy of a board in good order, to be changed."""
    return shutil.copytree(TREES / "rock5b", tmp_path / "board", symlinks=True)


@pytest.fixture
def ask(
    environment: dict[str, str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> Ask:
    """Run doctor on a tree, in this process: name -> state, value, advice."""
    monkeypatch.chdir(folder)

    def ask(tree: Path, *arguments: str) -> Report:
        code = doctor.main(["--json", "--root", str(tree), *arguments], environment)
        output, errors = capsysbinary.readouterr()
        report = parse_report(output)
        assert (code, errors) == (int(any(line[0] == "wrong" for line in report.values())), b"")
        return report

    return ask


def parse_report(document: str | bytes) -> Report:
    return {line.pop("name"): tuple(line.values()) for line in json.loads(document)["result"]["lines"]}


def run_python(code: str, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run doctor in an interpreter of its own, after a piece of Python code."""
    code += f"\nimport sys\nfrom rkllm_chat.cli.main import main\nsys.exit(main(['doctor', *{list(arguments)!r}]))"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=30, check=False
    )


def write(tree: Path, name: str, data: Data) -> None:
    """Write a file, make one of a size, or remove a file or folder."""
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if data is None:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    elif isinstance(data, int):
        path.touch()
        os.truncate(path, data)
    else:
        path.write_bytes(data.encode() if isinstance(data, str) else data)


@pytest.mark.parametrize(("path", "state"), [(os.environ["PATH"], "ok"), ("/nonexistent", "wrong")])
def test_a_checkout_that_is_not_installed_says_what_installing_needs(path: str, state: str, tmp_path: Path) -> None:
    """Nothing but the standard library is there: a new user has not waited for llama.cpp yet."""
    environment = {"HOME": str(tmp_path), "PATH": path}
    command = [sys.executable, "-S", "-m", "rkllm_chat"]  # -S: without the installed packages
    done = subprocess.run(
        [*command, "doctor"],
        cwd=TREES.parents[1],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    rows = {line[6:16].strip(): line[:6].strip() for line in done.stdout.splitlines() if line[:1] != " "}
    assert rows.keys() == {"packages", "Python", "pip", "compiler", "memory", "disk"}
    assert rows["compiler"] == state and done.returncode == int("wrong" in rows.values())
    assert done.stderr == ""
    done = subprocess.run(
        command, cwd=TREES.parents[1], env=environment, capture_output=True, encoding="utf-8", timeout=30, check=False
    )
    assert done.returncode == 5 and "pip install ." in done.stderr and "Traceback" not in done.stderr


def test_a_board_in_good_order_is_reported_line_by_line(in_process: Run) -> None:
    config = str(TREES / "rock5b" / BOARD_CONFIG)
    done = in_process("doctor", "--root", str(TREES / "rock5b"), "--config", config)
    assert (done.stdout, done.stderr) == (
        f"""\
ok    configuration   {config}
ok    platform        RK3588 (Radxa ROCK 5B)
ok    kernel          6.1.84-8-rk2410
ok    driver          rknpu 0.9.8
ok    nodes           /dev/dri/renderD129: this user can read and write
ok    library         /usr/lib/librkllmrt.so, release 1.2.3 (not tried)
ok    model           {MODEL}, 22 bytes, by its name rk3588 w8a8 (not tried)
ok    context         4096 tokens requested; the file's own limit is known once it is loaded
ok    memory          14.7 GB free of 16.5 GB; the model needs about 470 MB
ok    tokenizer       /home/mara/models/tokenizer.json (not tried)
ok    template        chatml, by the model's name (not tried)
ok    CPU             policy0 1800 MHz performance, policy4 2400 MHz performance, policy6 2400 MHz performance
ok    DDR             2112 MHz, performance
ok    NPU             1000 MHz, performance
ok    temperature     npu-thermal 44 °C, bigcore0-thermal 46 °C
ok    server board    rkllm-chat itself (not tried)
ok    server notes    /usr/bin/notes-server (not tried)
ok    server harbour  remote, not contacted
""",
        "",
    )


def test_the_advice_stands_below_its_line(board: Path, in_process: Run) -> None:
    write(board, VERSION, "RKNPU driver: v0.8.2\n")
    shown = in_process("doctor", "--root", str(board), code=1).stdout.splitlines()
    at = next(number for number, line in enumerate(shown) if line.startswith("wrong driver "))
    assert shown[at + 1].startswith(" " * 21) and "0.9.8" in shown[at + 1]


def run_script(script: str, tree: Path, *arguments: str) -> list[str]:
    """Run a fix script on the files of a tree; return the commands that it ran instead of writing files."""
    tools, log = tree / "tools", tree / "commands"
    for name in ("usermod", "gpasswd", "udevadm"):
        write(tree, f"tools/{name}", f'#!/bin/sh\necho {name} "$@" >> {log}\n')
        (tools / name).chmod(0o755)
    (tree / "etc/udev/rules.d").mkdir(parents=True, exist_ok=True)
    for place in ("/sys/", "/etc/udev/"):
        script = script.replace(f" {place}", f" {tree}{place}")
    log.unlink(missing_ok=True)
    environment = {"PATH": f"{tools}:/usr/bin:/bin"}
    subprocess.run(["sh", "-s", *arguments], input=script, text=True, check=True, timeout=10, env=environment)
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


@pytest.mark.slow
def test_the_fix_script_sets_what_is_slow_or_closed_and_its_undo_restores_it(
    board: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    tree = shutil.copytree(board, tmp_path / "slow")
    for name, text in SLOW.items():
        write(tree, name, text)
    write(tree, "etc/group", "root:x:0:\nvideo:x:44:mara,other\nrender:x:105:other\n")
    write(tree, "dev/rknpu", "")
    (tree / "dev/rknpu").chmod(0o400)
    environment["USER"] = "mara"
    before = snapshot(tree)
    done = run_python(WITHOUT_CAPABILITIES, environment, "--fix-script", "--root", str(tree))
    assert (done.returncode, done.stderr) == (0, "") and snapshot(tree) == before
    governors = {
        str(path.relative_to(tree)): path.read_text() for path in tree.rglob("*governor") if "gpu" not in str(path)
    }
    assert len(governors) == 5 and set(governors.values()) == {"ondemand\n", "rknpu_ondemand\n", "performance\n"}
    reload = ["udevadm control --reload", "udevadm trigger"]
    assert run_script(done.stdout, tree) == [*reload, "usermod -aG render mara"]
    rule = tree / "etc/udev/rules.d/70-rkllm-chat.rules"
    assert rule.read_text(encoding="utf-8") == 'KERNEL=="rknpu", MODE="0660", GROUP="video"\n'
    assert {(tree / name).read_text() for name in governors} == {"performance\n"}
    assert run_script(done.stdout, tree, "undo") == ["gpasswd -d mara render", *reload]
    assert {name: (tree / name).read_text() for name in governors} == governors and not rule.exists()


def test_the_fix_script_of_a_board_in_good_order_changes_nothing(in_process: Run, environment: dict[str, str]) -> None:
    environment["USER"] = "root"
    for tree in ("rock5b", "laptop"):
        script = in_process("doctor", "--fix-script", "--root", str(TREES / tree)).stdout
        assert script.startswith("#!/bin/sh\n") and script.count("echo 'Nothing to change.'") == 2, tree


def test_a_hostile_governor_stays_a_word_of_the_fix_script(board: Path, in_process: Run) -> None:
    write(board, f"{NPU}/governor", "x; touch hacked\n")
    script = in_process("doctor", "--fix-script", "--root", str(board)).stdout
    run_script(script, board, "undo")
    assert (board / NPU / "governor").read_text(encoding="utf-8") == "x; touch hacked\n"
    assert not list(board.rglob("hacked")) and not Path("hacked").exists()


def test_a_laptop_has_no_lines_about_an_npu(ask: Ask) -> None:
    report = ask(TREES / "laptop")
    assert {line[0] for line in report.values()} == {"ok"}
    names = ("configuration", "platform", "kernel", "model", "context", "memory", "temperature", "server board")
    assert tuple(report) == names
    assert report["platform"][1].startswith("x86_64, no Rockchip NPU")
    assert report["memory"][1] == "11.3 GB free of 16.5 GB; the model needs about 6.2 MB"


def test_this_machine_is_reported_without_errors() -> None:
    done = fork_server.run([*PROGRAM, "doctor", "--json"], text=True)
    report = parse_report(done.stdout)
    assert done.stderr == "" and done.returncode == (json.loads(done.stdout)["result"]["state"] == "wrong")
    assert {"configuration", "platform", "kernel", "memory"} <= report.keys()
    assert report.get("user", ())[:2] == (("warn", "root") if os.geteuid() == 0 else ())


@pytest.mark.slow
def test_the_chat_s_doctor_reads_the_configuration_of_the_chat(
    open_screen: Callable[..., Screen], script: Callable[..., str], folder: Path
) -> None:
    write(folder, "own.toml", f'[chat]\nmodel = "{script("Hello!")}"\n')
    write(folder, "mcp_config.toml", '[chat]\nmodel = "other.json"\n')
    screen = open_screen("--config", "own.toml", size=(140, 60))
    screen.wait_for_prompt()
    screen.type("/doctor\r")
    screen.wait_for("configuration")
    lines = [" ".join(line.split()) for line in screen.wait_for_prompt()]
    assert any("ok configuration own.toml" in line for line in lines), lines


def test_json_is_utf_8_in_every_locale(program: Run, environment: dict[str, str]) -> None:
    environment.update(LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert "52 °C" in program("doctor", "--json", "--root", str(TREES / "laptop")).stdout


def test_no_file_is_written(board: Path, in_process: Run, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    for options in ((), ("--json",), ("--board-report",), ("--fix-script",)):
        in_process("doctor", "--root", str(board), "--config", str(board / BOARD_CONFIG), *options)
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


def test_an_invalid_command_line_exits_with_2_and_a_missing_root_is_a_document_with_json(in_process: Run) -> None:
    for arguments in (("--root", "/no/such/folder"), ("--json", "--board-report"), ("--no-such-option",)):
        done = in_process("doctor", *arguments, code=2)
        assert arguments[-1] in done.stderr and done.stdout == ""
    done = in_process("doctor", "--json", "--root", "/no/such/folder", code=2)
    document = json.loads(done.stdout)
    assert (document["ok"], document["error"]["type"], done.stderr) == (False, "UsageError", "")
    assert "/no/such/folder" in document["error"]["message"]


def test_an_invalid_configuration_is_reported_and_the_other_checks_run(board: Path, ask: Ask) -> None:
    write(board, "broken.toml", '[chat]\nmodle = "x"\n')
    report = ask(board, "--config", str(board / "broken.toml"), "--model", MODEL)
    state, value, advice = report["configuration"]
    assert (state, bool(advice)) == ("wrong", True)
    assert value.startswith(f"{board}/broken.toml:2: ") and '"chat.modle"' in value
    assert report["driver"][0] == report["model"][0] == report["temperature"][0] == "ok"
    state, value, _ = ask(board, "--config", "none.toml")["configuration"]
    assert state == "wrong" and value.startswith("none.toml: No such file")


def test_the_command_of_each_server_is_searched(board: Path, ask: Ask) -> None:
    (board / "usr/bin/notes-server").rename(board / "opt-notes")
    config = (board / BOARD_CONFIG).read_text(encoding="utf-8")
    config += '[[servers]]\nname = "off"\ncommand = "none"\nenabled = false\n'
    config += '[[servers]]\nname = "whole"\ncommand = "/opt-notes"\n'
    config += '[[servers]]\nname = "own"\ncommand = "opt-notes"\nenv = { PATH = "/" }\n'
    config += '[[servers]]\nname = "lost"\ncommand = "/opt-notes"\ncwd = "/no/folder"\n'
    write(board, BOARD_CONFIG, config)
    report = ask(board, "--config", str(board / BOARD_CONFIG))
    assert {name: line[:2] for name, line in report.items() if name.startswith("server")} == {
        "server board": ("ok", "rkllm-chat itself (not tried)"),
        "server notes": ("wrong", "its command notes-server was not found"),
        "server harbour": ("ok", "remote, not contacted"),
        "server off": ("ok", "disabled"),
        "server whole": ("ok", "/opt-notes (not tried)"),
        "server own": ("ok", "/opt-notes (not tried)"),
        "server lost": ("wrong", "its folder /no/folder does not exist"),
    }


def test_requirements_of_bundled_servers_are_checked(folder: Path, in_process: Run, script: Script) -> None:
    model = ("--model", script("Hello."))  # else doctor loads the one that ships
    config = """
[[servers]]
name = "claude"
command = "rkllm-chat"
args = ["serve", "claude"]
env = { PATH = "%s" }
[[servers]]
name = "llm"
command = "rkllm-chat"
args = ["serve", "llm", "--model", "http://h/v1#m", "--set", "key_env=KEY"]
env = { %s = "x" }
"""

    def check_servers(path: Path, variable: str, code: int) -> dict[str, str]:
        (folder / "mcp_config.toml").write_text(config % (path, variable), encoding="utf-8")
        report = parse_report(in_process("doctor", "--json", *model, code=code).stdout)
        return {name: f"{line[0]}: {line[1]}" for name, line in report.items() if name.startswith("server")}

    without = check_servers(folder / "empty", "OTHER", 1)
    assert without["server llm"] == "wrong: rkllm-chat itself, but its env does not set KEY"
    installed = [path for path in ("/usr/local/bin/claude", "/usr/bin/claude") if Path(path).exists()]
    expected = (
        f"ok: rkllm-chat itself, with {installed[0]} (not tried)"
        if installed
        else "wrong: rkllm-chat itself, but the Claude"
    )
    assert without["server claude"].startswith(expected)
    (folder / "claude").touch(0o755)
    assert check_servers(folder, "KEY", 0) == {
        "server claude": f"ok: rkllm-chat itself, with {folder}/claude (not tried)",
        "server llm": "ok: rkllm-chat itself (not tried)",
        "server board": "ok: rkllm-chat itself (not tried)",
    }


@pytest.mark.parametrize(
    ("compatible", "chip"),
    [
        (b"radxa,rock-5b\0rockchip,rk3588\0", "rk3588"),
        (b"khadas,edge2\0rockchip,rk3588s\0", "rk3588"),
        (b"rockchip,rv1126b-evb1-v10\0rockchip,rv1126b\0", "rv1126b"),
        (b"raspberrypi,5-model-b\0brcm,bcm2712\0", ""),
    ],
)
def test_the_chip_is_read_from_the_device_tree(compatible: bytes, chip: str, tmp_path: Path) -> None:
    write(tmp_path, "sys/firmware/devicetree/base/compatible", compatible)
    soc = match_soc(read_chips(Board(tmp_path, Settings(), {})))
    assert (soc.name if soc else "") == chip


COMPATIBLE = "proc/device-tree/compatible"
RELEASE, ARCH = "proc/sys/kernel/osrelease", "proc/sys/kernel/arch"
HIDDEN: Files = {"proc/device-tree": None}
NO_DRIVER: Files = {VERSION: None, NPU: None, "dev": None}
GGUF = build_gguf({"general.architecture": "qwen3", "qwen3.context_length": 40960}, {})
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
SDK = "RKLLM SDK (version: 1.2.3)"
GB = 10**9
# Identification of an ELF file: class, byte order, version; then its type and machine (elf.h).
ELF_64, ELF_32, ELF_X86 = (
    b"\x7fELF" + bytes((size, 1, 1)) + bytes(9) + b"\3\0" + machine.to_bytes(2, "little")
    for size, machine in ((2, 183), (1, 40), (2, 62))
)


class Change(NamedTuple):
    """Files of a board in good order that are other, and the line of the report that changes; no state: no line.

    `advice` is a part of what to do.
    """

    line: str
    state: str
    value: str
    files: Mapping[str, Data] = MappingProxyType({})
    config: str = ""
    model: str = ""
    advice: str = ""


def context(model: str, tokens: int, state: str, value: str) -> Change:
    return Change("context", state, value, {"m.gguf": GGUF}, f'[chat]\nmodel = "{model}"\ncontext_tokens = {tokens}\n')


def model(name: str, state: str, value: str, data: bytes | None = b"x") -> Change:
    return Change("model", state, value, {f"m/{name}": data} if data is not None else {}, model=f"/m/{name}")


def some_model(line: str, state: str, value: str, config: str) -> Change:
    files: Files = {"m/some-rk3588.rkllm": "x", "m/own.jinja": "{% if tools %}<tool_call>{% endif %}"}
    return Change(line, state, value, files, f'[chat]\nmodel = "/m/some-rk3588.rkllm"\n{config}\n')


TEACHES_HERMES = "{% if tools %}<tool_call>{% endif %}"


def beside(line: str, state: str, value: str, file: str, content: str) -> Change:
    return Change(line, state, value, {"m/some-rk3588.rkllm": "x", f"m/{file}": content}, model="/m/some-rk3588.rkllm")


CAPACITIES: Files = {
    f"sys/devices/system/cpu/cpu{core}/cpu_capacity": f"{1024 if core > 3 else 530}\n" for core in range(8)
}


def pair(library: str, model: str, state: str, value: str, toolkit: str = "") -> Change:
    footer = f"rkllm-toolkit version: {toolkit}\n" if toolkit else ""
    files: Files = {LIBRARY: SDK.replace("1.2.3", library), f"m/{model}": f"x\n{footer}"}
    return Change("pair", state, value, files, model=f"/m/{model}")


CHANGES = [
    Change("platform", "ok", "RV1126B (", {COMPATIBLE: b"rockchip,rv1126b-evb1-v10\0rockchip,rv1126b\0"}),
    Change("platform", "warn", "aarch64 in a container that does not show the chip", {**HIDDEN, ".dockerenv": ""},
           advice="systempaths=unconfined"),
    Change("platform", "ok", "aarch64", HIDDEN),
    Change("platform", "warn", "RK3568", {COMPATIBLE: b"radxa,rock3a\0rockchip,rk3568\0"}),
    Change("driver", "", "", {COMPATIBLE: b"radxa,rock3a\0rockchip,rk3568\0"}),
    Change("kernel", "ok", "5.10.160", {RELEASE: "5.10.160-rockchip\n"}),
    Change("kernel", "ok", "7.0.3-edge-rockchip64, with the driver rknpu", {RELEASE: "7.0.3-edge-rockchip64\n"}),
    Change("kernel", "warn", "6.18.2", {RELEASE: "6.18.2\n", VERSION: None}),
    Change("kernel", "wrong", "6.18.2", {RELEASE: "6.18.2\n", "sys/module/rocket/version": ""}),
    Change("driver", "warn", "rknpu 0.9.6, older than 0.9.8", {VERSION: "RKNPU driver: v0.9.6\n"}),
    Change("driver", "wrong", "rknpu 0.8.8, too old", {VERSION: "RKNPU driver: v0.8.8\n"}, advice="0.9.8"),
    Change("driver", "ok", "rknpu 0.9.8", {VERSION: None, "sys/module/rknpu/version": "0.9.8\n"}),
    Change("driver", "warn", "unknown: the driver reports the version 'rubbish'", {VERSION: "rubbish\n"}),
    Change("driver", "ok", "rknpu 0.9.10", {VERSION: None, "proc/rknpu/version": "RKNPU driver: v0.9.10\n"}),
    Change("driver", "warn", "rknpu, ", {VERSION: None, "sys/bus/platform/drivers/RKNPU/uevent": ""}),
    Change("driver", "wrong", "none", NO_DRIVER),
    Change("nodes", "wrong", "neither /dev/dri/renderD* nor /dev/rknpu", NO_DRIVER),
    Change("nodes", "wrong", "neither /dev/dri/renderD* nor /dev/rknpu", {"dev": None, ".dockerenv": ""},
           advice="--device /dev/dri"),
    Change("nodes", "ok", "/dev/dri/card1, /dev/dri/renderD129", {
        "dev/dri/card0": "", "dev/dri/card1": "", "sys/class/drm/card1/device/uevent": "DRIVER=RKNPU\n"
    }),
    Change("buffers", "ok", "/dev/dma_heap/system: this user can read and write", {"dev/dma_heap/system": ""}),
    Change("NPU", "warn", "the kernel", NO_DRIVER),
    Change("NPU", "warn", "300 MHz, rknpu_ondemand", SLOW, advice=f"performance | sudo tee /{NPU}/governor"),
    Change("NPU", "ok", "950 MHz, userspace", {NPU: None, **{
        f"sys/class/devfreq/22000000.npu/{name}": f"{text}\n"
        for name, text in (("governor", "userspace"), ("cur_freq", "950000000"), ("available_frequencies", "950000000"))
    }}),
    Change("DDR", "warn", "2112 MHz, ondemand", {"sys/class/devfreq/dmc/governor": "ondemand\n"},
           advice="performance | sudo tee /sys/class/devfreq/dmc/governor"),
    Change("CPU", "warn", "policy0 1800 MHz ondemand, policy4 2400 MHz ondemand", SLOW,
           advice="5 to 32 % faster"),
    Change("CPU", "warn", "", SLOW, advice="| sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor"),
    Change("nodes", "ok", "/dev/dri/renderD128, /dev/dri/renderD129, /dev/rknpu",
           {"sys/class/drm": None, "dev/rknpu": ""}),
    Change("DDR", "warn", "no /sys/class/devfreq/dmc", {"sys/class/devfreq/dmc": None}),
    Change("temperature", "warn", "bigcore0-thermal 87 °C", {"sys/class/thermal/thermal_zone1/temp": "87000\n"},
           advice="fan"),
    Change("temperature", "ok", "bigcore0-thermal 46 °C", {"sys/class/thermal/thermal_zone6/temp": ""}),
    Change("library", "ok", f"/{LIBRARY}, release 1.3.0", {LIBRARY: "RKLLM SDK (version: 1.3.0 (2026-06-17))"}),
    Change("library", "wrong", f"/{LIBRARY}: release 9.9.9", {LIBRARY: "RKLLM SDK (version: 9.9.9 (2031-01-01))"}),
    Change("library", "wrong", f"/{LIBRARY}: its release", {LIBRARY: "RKNN SDK, another library"}),
    Change("library", "wrong", "no librkllmrt.so", {LIBRARY: None}),
    Change("library", "ok", "/opt/librkllmrt.so, release 1.2.3", {LIBRARY: None, "opt/librkllmrt.so": SDK},
           '[rkllm]\nlibrary = "/opt"\n'),
    Change("library", "wrong", "/mnt does not exist", {}, '[rkllm]\nlibrary = "/mnt"\n'),
    Change("library", "ok", f"/{LIBRARY}, release 1.2.3", {LIBRARY: ELF_64 + SDK.encode()}),
    Change("library", "wrong", f"/{LIBRARY} is a library for 32-bit ARM", {LIBRARY: ELF_32 + SDK.encode()},
           advice="aarch64"),
    Change("library", "ok", f"/{LIBRARY}, release 1.2.3", {LIBRARY: ELF_32 + SDK.encode(), ARCH: "armv7l\n"}),
    Change("library", "wrong", f"/{LIBRARY} is a library for 64-bit x86", {LIBRARY: ELF_X86 + SDK.encode()}),
    Change("libraries", "warn", "/usr/local/lib/librkllmrt.so (1.3.0), /opt/rkllm/lib/librkllmrt.so (unknown release)",
           {"usr/local/lib/librkllmrt.so": SDK.replace("1.2.3", "1.3.0"), "opt/rkllm/lib/librkllmrt.so": "x"}),
    Change("libraries", "", "", {"usr/local/lib/librkllmrt.so": SDK}, f'[rkllm]\nlibrary = "/{LIBRARY}"\n'),
    pair("1.3.0", "qwen3-rk3588.rkllm", "warn", "library 1.3.0, model of toolkit 1.2.2: this library", "1.2.2"),
    pair("1.3.1", "qwen3-rk3588.rkllm", "ok", "library 1.3.1, model of toolkit 1.3.0", "1.3.0"),
    pair("1.3.0", "qwen3-rk3588.rkllm", "", ""),
    pair("1.2.3", "DeepSeek-R1-Distill-Qwen-1.5B.rkllm", "warn", "library 1.2.3, model: this library writes only [PAD"),
    pair("1.2.2", "DeepSeek-R1-Distill-Qwen-1.5B.rkllm", "", ""),
    pair("1.3.0", "Qwen3.5-2B-rk3588.rkllm", "warn", "library 1.3.0, model: this library takes about 2 MB"),
    pair("1.3.0", "Qwen3-5B-rk3588.rkllm", "", ""),
    Change("engine", "ok", "llama.cpp, 4 threads on the big cores 4, 5, 6, 7", CAPACITIES),
    Change("engine", "wrong", "llama_library /opt/llama does not exist", {}, '[chat]\nllama_library = "/opt/llama"\n'),
    Change("engine", "ok", "llama.cpp, /opt/llama", {"opt/llama/libllama.so": "x"},
           '[chat]\nllama_library = "/opt/llama"\n'),
    Change("engine", "", "", CAPACITIES, model="/m/qwen3-rk3588.rkllm"),
    Change("template", "ok", "chatml, by qwen3", {"m/model.rkllm": "x"},
           '[chat]\nfamily = "qwen3"\nmodel = "/m/model.rkllm"\n'),
    Change("template", "wrong", 'known as "nothing"', {"m/model.rkllm": "x"},
           '[chat]\nfamily = "nothing"\nmodel = "/m/model.rkllm"\n'),
    model("qwen2.5-1.5b-rk3588s-W8A8-opt-1.rkllm", "ok", "1 bytes, by its name rk3588 w8a8"),
    model("Qwen2.5-1.5B-Instruct_W8A8_g128_RK3588.rkllm", "warn", "by its name rk3588 w8a8_g128"),
    Change("tokenizer", "warn", "no tokenizer.json next to the model", {"m/qwen3.rkllm": "x"}, model="/m/qwen3.rkllm",
           advice="original model"),
    model("qwen3.rkllm", "ok", "no chip"),
    model("Qwen3_W4A16_RK3576.rkllm", "wrong", "by its name rk3576 w4a16, but this is rk3588"),
    model("qwen3-w4a16.rkllm", "wrong", "by its name w4a16, but rk3588 does not support w4a16"),
    model("none.rkllm", "wrong", "/m/none.rkllm: No such file", None),
    model("empty-rk3588.rkllm", "wrong", "/m/empty-rk3588.rkllm: the file is empty", b""),
    model("lfs.rkllm", "wrong", "Git LFS pointer", POINTER),
    model("page.rkllm", "wrong", "web page", b"\n<!DOCTYPE html><html>"),
    model("other.gguf", "wrong", r"'PK\x03\x04'", b"PK\3\4"),
    Change("model", "warn", "tiny-tools.gguf, 6.2 MB"),
    Change("model", "wrong", "none, but the NPU", config='[chat]\nbackend = "rkllm"\nmodel = ""\n'),
    Change("model", "ok", "replies.json: no file", config='[chat]\nmodel = "replies.json"\n'),
    Change("model", "ok", "https://host.example/v1: no file", config='[chat]\nmodel = "https://host.example/v1"\n'),
    Change("context", "", "", config='[chat]\nmodel = "replies.json"\n'),
    context(MODEL, 16384, "ok", "16384 tokens"),
    context(MODEL, 16416, "wrong", "16416 tokens requested"),
    context(MODEL, 1000, "warn", "1000 tokens requested"),
    context("/m.gguf", 0, "ok", "the default; the model was trained on 40960"),
    context("/m.gguf", 8192, "ok", "8192 tokens requested; the model was trained on 40960"),
    context("/m.gguf", 65536, "warn", "65536 tokens requested, the model was trained on 40960"),
    Change("memory", "ok", "14.7 GB free of 16.5 GB; the model needs about 1.5 GB", {"m.rkllm": GB}, model="/m.rkllm"),
    Change("memory", "warn", "needs about 15.5 GB", {"m.rkllm": 15 * GB}, model="/m.rkllm"),
    Change("memory", "wrong", "needs about 20.5 GB", {"m.rkllm": 20 * GB}, model="/m.rkllm"),
    Change("domain", "", "", {"m.rkllm": 4 * GB}, model="/m.rkllm"),
    Change("domain", "warn", "", {"m.rkllm": 5 * GB}, model="/m.rkllm"),
    some_model("template", "wrong", "unknown", '[rkllm]\ntemplate = "auto"'),
    some_model("template", "wrong", "named none", '[rkllm]\ntemplate = "none"'),
    some_model("template", "ok", "llama3, as set", '[rkllm]\ntemplate = "llama3"'),
    some_model("template", "ok", "/m/own.jinja", '[rkllm]\ntemplate = "/m/own.jinja"'),
    some_model("template", "ok", "runtime", '[rkllm]\ntemplate = "runtime"'),
    beside("template", "ok", "that of /m/chat_template.jinja", "chat_template.jinja", TEACHES_HERMES),
    beside("template", "ok", "that of /m/tokenizer_config.json", "tokenizer_config.json",
           json.dumps({"chat_template": TEACHES_HERMES})),
    beside("template", "wrong", "unknown", "tokenizer_config.json", "{"),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: f"{one.line} {one.state or 'absent'} {one.value}".strip())
def test_a_change_of_a_board_changes_its_line(change: Change, board: Path, ask: Ask) -> None:
    for name, data in change.files.items():
        write(board, name, data)
    arguments = ["--model", change.model] if change.model else []
    if change.config:
        write(board, "own.toml", change.config)
        arguments += ["--config", str(board / "own.toml")]
    report = ask(board, *arguments)
    state, value, advice = report.get(change.line, ("", "", ""))
    assert state == change.state and change.value in value and change.advice in advice
    is_explained = not value.startswith(("unknown: ", "the kernel does not show"))
    assert bool(advice) == (state in ("warn", "wrong") and is_explained)


WITHOUT_CAPABILITIES = """
import ctypes
header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0
"""


def ask_without_capabilities(tree: Path, environment: dict[str, str]) -> Report:
    """Ask in a process without capabilities, so that file modes count for root too."""
    done = run_python(WITHOUT_CAPABILITIES, environment, "--json", "--root", str(tree))
    assert done.returncode in (0, 1) and done.stderr == "", done.stderr
    return parse_report(done.stdout)


@pytest.mark.slow
def test_files_that_this_user_may_not_read_are_reported(board: Path, environment: dict[str, str]) -> None:
    report = ask_without_capabilities(board, environment)
    assert (report["driver"][0], report["nodes"][0]) == ("ok", "ok")
    (board / VERSION).chmod(0)
    (board / NODE).chmod(0o440)
    report = ask_without_capabilities(board, environment)
    assert report["driver"][:2] == ("warn", f"/{VERSION}: this user cannot read it")
    assert report["driver"][2].endswith(f"sudo cat /{VERSION}")
    assert report["nodes"][0] == "wrong" and f"/{NODE}" in report["nodes"][1] and "usermod" in report["nodes"][2]
    assert "--output fix-script" in report["nodes"][2]
    (board / "sys/kernel/debug").chmod(0)
    try:
        assert ask_without_capabilities(board, environment)["driver"] == report["driver"]
    finally:
        (board / "sys/kernel/debug").chmod(0o755)


def test_a_clock_is_fast_with_performance_or_userspace_at_the_top() -> None:
    assert is_at_full_speed("performance", 300, "300 1000")
    assert is_at_full_speed("userspace", 2352, "408 2400")  # 98%, as rknn-llm's scripts set it
    assert not is_at_full_speed("userspace", 300, "300 1000")
    assert not is_at_full_speed("simple_ondemand", 1000, "300 1000")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_model_that_is_not_a_regular_file_is_wrong(make: Callable[[Path], None], board: Path, ask: Ask) -> None:
    make(board / "m.rkllm")
    assert ask(board, "--model", "/m.rkllm")["model"][:2] == ("wrong", "/m.rkllm: not a regular file")


def test_the_file_with_which_a_model_sees_is_found_and_a_configured_one_must_exist(board: Path, ask: Ask) -> None:
    write(board, "data/models/Qwen2-VL-2B.gguf", b"GGUF")
    write(board, "data/models/mmproj-Qwen2-VL-2B-f16.gguf", b"GGUF")
    write(board, "data/models/Qwen2-VL-2B_w8a8_rk3588.rkllm", b"RKLLM")
    write(board, "data/models/qwen2_vl_2b_vision_rk3588.rknn", b"RKNN")

    def find_media(chat: str, rkllm: str = "") -> tuple[str, str, str] | None:
        config = board / "config.toml"
        config.write_text(f"[chat]\n{chat}\n[rkllm]\n{rkllm}\n", encoding="utf-8")
        return ask(board, "--config", str(config)).get("media")

    gguf, npu = 'model = "/data/models/Qwen2-VL-2B.gguf"', 'model = "/data/models/Qwen2-VL-2B_w8a8_rk3588.rkllm"'
    assert find_media(gguf) == ("ok", "/data/models/mmproj-Qwen2-VL-2B-f16.gguf, 4 bytes (not tried)", "")
    assert find_media(npu) == ("ok", "/data/models/qwen2_vl_2b_vision_rk3588.rknn, 4 bytes (not tried)", "")
    assert find_media(f'{gguf}\nmmproj = "none"') is None
    assert find_media(npu, 'encoder = "none"') is None
    state, value, advice = find_media(f'{gguf}\nmmproj = "/data/none.gguf"') or ("", "", "")
    assert (state, value) == ("wrong", "/data/none.gguf does not exist") and "mmproj" in advice
    state, value, advice = find_media(npu, 'encoder = "/data/none.rknn"') or ("", "", "")
    assert state == "wrong" and "none.rknn" in value and "[rkllm]" in advice


def test_an_npu_model_is_wrong_on_a_laptop(tmp_path: Path, ask: Ask) -> None:
    laptop = shutil.copytree(TREES / "laptop", tmp_path / "laptop")
    write(laptop, "m.rkllm", "x")
    state, value, advice = ask(laptop, "--model", "/m.rkllm")["model"]
    assert state == "wrong" and "NPU" in value and ".gguf" in advice


@pytest.mark.slow
def test_a_tokenizer_is_read_on_this_machine(environment: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, "m.rkllm", "{}")
    shutil.copy(SHIPPED_TOKENIZER, tmp_path)
    arguments = ("--json", "--model", str(tmp_path / "m.rkllm"))

    def report(before: str = "") -> tuple[str, str, str]:
        return parse_report(run_python(before, environment, *arguments).stdout)["tokenizer"]

    without = report("import sys; sys.modules['tokenizers'] = None")
    assert without[0] == "warn" and "not installed" in without[1] and "pip install tokenizers" in without[2]
    assert report() == ("ok", f"{tmp_path}/tokenizer.json, which the package tokenizers reads", "")
    write(tmp_path, "tokenizer.json", "{}")
    assert report()[:2] == ("wrong", f"{tmp_path}/tokenizer.json: not a tokenizer: Model missing. at line 1 column 2.")


def test_without_llama_cpp_a_gguf_is_wrong_on_this_machine(monkeypatch: pytest.MonkeyPatch, in_process: Run) -> None:
    assert "engine" not in parse_report(in_process("doctor", "--json", code=None).stdout)
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    state, value, _ = parse_report(in_process("doctor", "--json", code=1).stdout)["engine"]
    assert state == "wrong" and "llama-cpp-python" in value


def test_an_empty_tree_is_reported_without_a_crash(tmp_path: Path, ask: Ask) -> None:
    report = ask(tmp_path)
    assert report["platform"][1] == "an unknown processor, no Rockchip NPU: models run on llama.cpp"
    assert report["kernel"][:2] == ("warn", "unknown: /proc/sys/kernel/osrelease: no such file")
    assert report["memory"][:2] == ("warn", "unknown: /proc/meminfo: no such file")


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_folder_or_pipe_in_place_of_a_file_is_reported(kind: str, board: Path, ask: Ask) -> None:
    paths = {
        "platform": "proc/device-tree/compatible",
        "kernel": "proc/sys/kernel/osrelease",
        "driver": VERSION,
        "NPU": f"{NPU}/governor",
        "DDR": "sys/class/devfreq/dmc/cur_freq",
        "CPU": "sys/devices/system/cpu/cpufreq/policy4/scaling_governor",
        "memory": "proc/meminfo",
    }
    for name, path in paths.items():
        text = (board / path).read_bytes()
        (board / path).unlink()
        (board / path).mkdir() if kind == "folder" else os.mkfifo(board / path)
        assert ask(board)[name] == ("warn", f"unknown: /{path}: not a regular file", ""), name
        (board / path).rmdir() if kind == "folder" else (board / path).unlink()
        (board / path).write_bytes(text)


def test_a_link_is_followed_only_within_the_tree(board: Path, ask: Ask, tmp_path: Path) -> None:
    write(tmp_path, "secret", "0.9.8 is my password")
    (board / VERSION).unlink()
    (board / VERSION).symlink_to(tmp_path / "secret")
    (board / "sys/devices/npu").parent.mkdir(parents=True, exist_ok=True)
    (board / NPU).rename(board / "sys/devices/npu")
    (board / NPU).symlink_to("../../devices/npu")
    report = ask(board)
    assert report["driver"][:2] == ("warn", "rknpu, which does not show its version")
    assert report["NPU"] == ("ok", "1000 MHz, performance", "")


@pytest.mark.slow
def test_no_content_of_a_file_makes_a_check_fail(board: Path) -> None:
    """Each file of the board in turn is emptied, and filled with random bytes and with long numbers."""
    settings = Settings(model=MODEL)
    for path in [path for path in board.rglob("*") if path.is_file()]:
        whole = path.read_bytes()
        for data in (b"", b"\xff\0\xfe\x1b[31m\n" * 50, b"9" * 1000, b"MemTotal: " + b"9" * 400 + b" kB"):
            path.write_bytes(data)
            seen = Board(board, settings, {"PATH": "/usr/bin"})
            lines = [line for name, check in CHECKS.items() for line in run_check(name, check, seen)]
            assert {line.state for line in lines} <= {"ok", "warn", "wrong"} and len(lines) >= 7, path
        path.write_bytes(whole)


def test_control_characters_in_the_name_of_a_board_are_escaped(board: Path, in_process: Run) -> None:
    write(board, "proc/device-tree/model", b"\x1b[31mROCK\x9b\n\rwrong x | y\0")
    shown = in_process("doctor", "--root", str(board)).stdout
    assert "ok    platform       RK3588 (\\x1b[31mROCK� wrong x | y)\n" in shown
    report = in_process("doctor", "--root", str(board), "--board-report").stdout
    assert "| RK3588 (\\x1b[31mROCK� wrong x \\| y) |" in report


def test_sizes_have_the_unit_that_fits() -> None:
    sizes = {0: "0 bytes", 999: "999 bytes", 4_169_312: "4.2 MB", 470e6: "470 MB", 2.34e9: "2.3 GB", 3e12: "3000 GB"}
    assert {size: format_size(size) for size in sizes} == sizes


@pytest.fixture
def report(board: Path, in_process: Run, environment: dict[str, str], tmp_path: Path) -> str:
    """The report of a board whose owner is called Mara, and whose machine is called anchor."""
    home = tmp_path / "home/mara"
    home.mkdir(parents=True)
    environment.update(HOME=str(home), USER="mara", LOGNAME="mara")
    config = (board / BOARD_CONFIG).read_text(encoding="utf-8")
    config = config.replace('"notes-server"', '"/home/mara/anchor/notes"')
    write(home, "own.toml", config)
    return in_process(
        "doctor", "--board-report", "--root", str(board), "--config", str(home / "own.toml"), code=1
    ).stdout


def test_the_report_has_every_line(report: str) -> None:
    rows = re.findall(r"^\| (ok|warn|wrong) \| ([^|]*) \|", report, flags=re.MULTILINE)
    assert [name for _, name in rows][:6] == ["configuration", "platform", "kernel", "driver", "nodes", "library"]
    assert ("wrong", "server notes") in rows and len(rows) == 18


def test_the_report_names_no_user_and_no_machine(report: str) -> None:
    assert "mara" not in report and "anchor" not in report and "secret" not in report
    assert "harbour.example" not in report
    assert "| ok | model | ~/models/Qwen3-1.7B-w8a8-rk3588.rkllm," in report
    assert "its command ~/<host>/notes was not found" in report


def test_the_report_does_not_quote_an_invalid_configuration(
    in_process: Run, folder: Path, environment: dict[str, str]
) -> None:
    write(folder, "own.toml", '[chat]\nmax_steps = "hush"\n')
    arguments = ("--root", str(TREES / "laptop"), "--config", "own.toml")
    assert "hush" in in_process("doctor", *arguments, code=1).stdout
    report = in_process("doctor", "--board-report", *arguments, code=1).stdout
    assert environment["HOME"] not in report and "hush" not in report and "| wrong | configuration | " in report


def test_the_page_about_models_shows_every_key_of_rkllm_and_every_template() -> None:
    page = (TREES.parents[1] / "models/README.md").read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    shown = [read_toml(block, "models/README.md", {"HOME": "/home/someone"}) for block in blocks]
    keys = {key for settings in shown for key in settings.origins if key.startswith("rkllm.")}
    assert keys == {f"rkllm.{field.name}" for field in fields(Rkllm)}
    assert not [name for name in TEMPLATES if f"`{name}`" not in page]
    assert not [soc.name for soc in SOCS if soc.name.upper() not in page]


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(180)
def test_a_model_is_tried_and_the_better_profile_remembered(program: Run, folder: Path) -> None:
    done = program("doctor", "--tools", "--json", "--model", "tiny-tools")
    lines = {line["name"]: line["value"] for line in json.loads(done.stdout)["result"]["lines"]}
    assert lines.keys() == {"profile tiny-tools", "profile default", "conversations", "prompt profile"}
    held, _, failed = lines["conversations"].partition(" of 5; not: ")
    assert failed and int(held) == len(CONVERSATIONS) - len(failed.split("; "))
    assert {*failed.split("; ")} <= {conversation.name for conversation in CONVERSATIONS}
    assert "leaves tools alone: " in lines["profile tiny-tools"] and "of 6" in lines["profile tiny-tools"]
    assert done.stderr.count("of 18") == 2 * len(PROBES)
    measured = json.loads((folder.parent / "home/.local/state/rkllm-chat/measured.json").read_text(encoding="utf-8"))
    remembered = [value for key, value in measured.items() if key.startswith("profile ")]
    assert [f"{value} from now on" for value in remembered] == [lines["prompt profile"]]


def test_a_model_that_cannot_be_loaded_is_a_finding(program: Run, folder: Path) -> None:
    (folder / "bad.gguf").write_bytes(b"GGUF")
    done = program("doctor", "--tools", "--model", "bad.gguf", code=1)
    assert done.stdout.startswith("wrong tools") and "bad.gguf" in done.stdout
