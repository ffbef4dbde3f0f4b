"""What the tests have in common: where models are, and LiteRT if it is installed."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

ROOT = pathlib.Path(__file__).parents[2]


CASES = sorted((ROOT / "conformance/cases").glob("*/model.tflite"))
SHARED = pathlib.Path(os.environ.get("ATTACHE_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def litert():
    """The module of LiteRT's interpreter."""
    return pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert, the oracle, is not installed")


@pytest.fixture(scope="session")
def shared():
    """The folder of shared models and scripts."""
    if not SHARED.is_dir():
        pytest.skip("ATTACHE_SHARED names no folder, and ../shared is none")
    return SHARED
