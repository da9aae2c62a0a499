# Makes tests/*.py importable by the tests in the folders (plans.py), under pytest's importlib mode.
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
