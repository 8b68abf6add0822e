"""The names that a user imports, and the packages that this takes."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import fxopt
import fxopt.core

ROOT = Path(__file__).parent.parent

OPTIMUM = [
    *("ChangeTrueDivToMulByInverse", "FuseBatchNorm1dInLinear", "FuseBatchNorm2dInConv2d", "FuseBiasInLinear"),
    *("MergeLinears", "ReversibleTransformation", "Transformation", "compose"),
]

WITHOUT = """
import sys
for name in {absent}:
    sys.modules[name] = None  # so that importing it raises ModuleNotFoundError
import torch, fxopt
import fxopt.models, fxopt.view, fxopt.evidence
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).eval()
wb = fxopt.Workbench(model, (torch.rand(2, 3, 8, 8),))
wb.turn_on("FuseBatchNorm2dInConv2d")
wb.reverse_all()
assert wb.is_restored
"""


def test_every_name_of_optimum_is_here() -> None:
    assert set(OPTIMUM) <= set(fxopt.__all__)


def test_all_names_what_is_there_and_nothing_else_is_public() -> None:
    assert sorted(fxopt.__all__) == sorted(set(fxopt.__all__))
    public = {name for name, thing in vars(fxopt).items() if not name.startswith("_") and not is_own_module(thing)}
    assert public == set(fxopt.__all__)


@pytest.mark.parametrize("module", [fxopt, fxopt.core])
def test_an_old_name_works_with_a_warning(module: ModuleType) -> None:
    with pytest.warns(DeprecationWarning, match="bytes_kept is now .*bytes_retained"):
        assert module.bytes_kept is module.bytes_retained
    with pytest.raises(AttributeError, match="has no attribute 'bytes_lost'"):
        _ = module.bytes_lost


def is_own_module(thing: object) -> bool:
    return isinstance(thing, ModuleType) and thing.__name__.startswith("fxopt.")


@pytest.mark.parametrize("name", fxopt.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    thing = getattr(fxopt, name)
    assert isinstance(thing, tuple) or (thing.__doc__ or "").strip()


@pytest.mark.slow
def test_the_library_works_without_streamlit_and_transformers() -> None:
    code = WITHOUT.replace("{absent}", repr({"streamlit", "transformers", "sklearn"}))
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_importing_it_does_not_import_transformers_or_streamlit() -> None:
    code = "import sys, fxopt; print([m for m in ('transformers', 'streamlit', 'sklearn') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT).stdout == "[]\n"
