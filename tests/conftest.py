"""Settings of all tests."""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is ever fetched from a hub

import pytest
import torch
from hypothesis import settings

settings.register_profile("fxopt", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("fxopt")

torch.set_num_threads(1)  # two workers on two cores


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the workers of a run share one folder of kept captures
        folder = tempfile.TemporaryDirectory(prefix="fxopt-cache-")
        os.environ["FXOPT_CACHE"] = folder.name
        os.environ["FXOPT_AHEAD"] = "0"  # or each server of the tests would capture all models
        config.add_cleanup(folder.cleanup)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="accept the graphs as they are")


class Golden:
    """Compares text with a file under tests/golden, or rewrites the file when asked to."""

    def __init__(self, update: bool) -> None:
        self.update = update

    def check(self, name: str, text: str, needed: bool = True) -> None:
        file = Path(__file__).parent / "golden" / f"{name}.txt"
        if self.update:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        if not needed and not file.exists():
            pytest.skip(
                f"tests/golden/{file.name} is not there; where it is worth reading, pytest --update-golden makes it"
            )
        assert file.exists(), f"tests/golden/{file.name} is not there; make it with: pytest --update-golden"
        assert text == file.read_text(), "read the difference; accept it with: pytest --update-golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.config.getoption("--update-golden"))
