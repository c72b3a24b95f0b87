"""Gauges are read from the kernel's files, below a folder laid out as on a board."""

from __future__ import annotations

from pathlib import Path

import pytest

from rkllm_chat.core.hardware import Memory, Npu, read_load, read_memory, read_npu, read_temperatures, read_uptime
from stage import write_files

MEMINFO = """MemTotal:        8137612 kB
MemFree:          421364 kB
MemAvailable:    6094848 kB
SwapTotal:       4068800 kB
SwapFree:        4068544 kB
HugePages_Total:       0
"""
NPU_LOAD = "NPU load:  Core0: 12%, Core1:  0%, Core2:  0%,\n"

BOARD = {
    "proc/meminfo": MEMINFO,
    "proc/loadavg": "0.52 0.58 0.59 1/467 12345\n",
    "proc/uptime": "93784.21 712345.10\n",
    "proc/rknpu/load": NPU_LOAD,
    "sys/class/devfreq/fdab0000.npu/cur_freq": "1000000000\n",
    "sys/class/devfreq/fb000000.gpu/cur_freq": "300000000\n",
    "sys/class/thermal/thermal_zone0/type": "soc-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "45307\n",
    "sys/class/thermal/thermal_zone1/type": "bigcore0-thermal\n",
    "sys/class/thermal/thermal_zone1/temp": "-1500\n",
    "sys/class/thermal/thermal_zone10/type": "npu-thermal\n",
    "sys/class/thermal/thermal_zone10/temp": "44384\n",
    "sys/class/thermal/thermal_zone2/type": "broken-thermal\n",
    "sys/class/thermal/thermal_zone2/temp": "\n",
    "sys/class/thermal/cooling_device0/type": "pwm-fan\n",
}


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return write_files(tmp_path, BOARD)


def test_temperatures_are_listed_in_the_order_of_the_zones(board: Path) -> None:
    degrees = read_temperatures(board)
    assert list(degrees.items()) == [("soc-thermal", 45.307), ("bigcore0-thermal", -1.5), ("npu-thermal", 44.384)]


def test_two_zones_of_one_type_are_both_listed(tmp_path: Path) -> None:
    zones = {
        f"thermal_zone{i}/{name}": text for i in range(2) for name, text in (("type", "acpitz"), ("temp", f"{i}000"))
    }
    write_files(tmp_path / "sys/class/thermal", zones)
    assert sorted(read_temperatures(tmp_path).values()) == [0.0, 1.0]


def test_free_memory_is_used_where_an_old_kernel_has_no_available(tmp_path: Path) -> None:
    write_files(tmp_path, {"proc/meminfo": "MemTotal: 4 kB\nMemFree: 3 kB\n"})
    assert read_memory(tmp_path) == Memory(4096, 3072, 0, 0)


@pytest.mark.parametrize(
    ("files", "npu"),
    [
        (BOARD, Npu((12, 0, 0), 1_000_000_000)),
        ({"proc/rknpu/load": "NPU load:  7%\n"}, Npu((7,), None)),
        ({"sys/kernel/debug/rknpu/load": NPU_LOAD}, Npu((12, 0, 0), None)),
        ({"sys/class/devfreq/fde40000.npu/cur_freq": "200000000\n"}, Npu(None, 200_000_000)),
        ({"sys/class/devfreq/fb000000.gpu/cur_freq": "300000000\n"}, None),
        ({**BOARD, "proc/rknpu/load": "NPU load:  unknown\n"}, Npu(None, 1_000_000_000)),
        ({}, None),
    ],
    ids=["RK3588", "one core", "debugfs", "load for root only", "another device", "load without cores", "no NPU"],
)
def test_the_npu_is_read_from_every_place_of_the_driver(files: dict[str, str], npu: Npu | None, tmp_path: Path) -> None:
    assert read_npu(write_files(tmp_path, files)) == npu


def test_a_machine_without_these_files_has_no_gauges(tmp_path: Path) -> None:
    assert read_temperatures(tmp_path) == {}
    assert (read_memory(tmp_path), read_load(tmp_path), read_npu(tmp_path)) == (None, None, None)
    assert read_uptime(tmp_path) == 0.0
