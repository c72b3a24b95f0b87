"""Measurements. What tests share is found here as pytest finds it: `tests` itself is on the path."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
