"""The rewriting machine. It knows no particular pass, and imports torch only."""

from fxopt.core.copying import shared_copy
from fxopt.core.edit import Patch
from fxopt.core.errors import FxoptError, FxoptWarning, ModelError, RewriteError
from fxopt.core.fingerprint import Fingerprint, fingerprint
from fxopt.core.graph import SourceLine, TensorInfo, info_of, is_tensor
from fxopt.core.guards import input_of, module_miss
from fxopt.core.index import GraphIndex
from fxopt.core.ledger import Entry, Ledger
from fxopt.core.pass_base import Exactness, Match, Miss, Pass, Scan
from fxopt.core.rewriter import Origin, Rewriter, with_tensors
from fxopt.core.transformation import ReversibleTransformation, Transformation, compose

__all__ = [
    "Entry",
    "Exactness",
    "Fingerprint",
    "FxoptError",
    "FxoptWarning",
    "GraphIndex",
    "Ledger",
    "Match",
    "Miss",
    "ModelError",
    "Origin",
    "Pass",
    "Patch",
    "ReversibleTransformation",
    "RewriteError",
    "Rewriter",
    "Scan",
    "SourceLine",
    "TensorInfo",
    "Transformation",
    "compose",
    "fingerprint",
    "info_of",
    "input_of",
    "is_tensor",
    "module_miss",
    "shared_copy",
    "with_tensors",
]
