"""The rewriting machine. It is independent of particular passes, and imports torch only."""

import typing as _typing

from fxopt import errors as _errors
from fxopt.core.composition import compose
from fxopt.core.entry import Entry
from fxopt.core.function_pass import as_pass
from fxopt.core.layer_edit import path_beside, remove_layer, remove_tensors, set_arguments, set_tensors
from fxopt.core.ledger import Ledger
from fxopt.core.logged import LoggedStep
from fxopt.core.pass_base import Pass
from fxopt.core.pipeline import Log, record
from fxopt.core.retained import bytes_retained, commit
from fxopt.core.rewriter import Rewriter
from fxopt.core.transformation import ReversibleTransformation, Transformation
from fxopt.errors import FxoptError, FxoptWarning, ModelError, RewriteError, RuleError
from fxopt.graph.conditions import Condition, Conditions, Unmet, decide, of_type, present
from fxopt.graph.copying import shared_copy, with_tensors
from fxopt.graph.exactness import Exactness
from fxopt.graph.fingerprint import Fingerprint, fingerprint
from fxopt.graph.guards import (
    decomposed_linear_miss,
    dtype_conditions,
    layer_conditions,
    module_conditions,
    module_miss,
    rank_condition,
    unaltered_conditions,
    unread_condition,
)
from fxopt.graph.index import GraphIndex
from fxopt.graph.jumps import jump_condition
from fxopt.graph.layer import (
    ADDMM_CALLS,
    BATCH_NORM_CALLS,
    CONV_CALLS,
    DECOMPOSED_LINEAR_CALLS,
    LINEAR_CALLS,
    AddmmLayer,
    BatchNormLayer,
    ConvLayer,
    Held,
    Layer,
    LinearLayer,
    calls_linear,
    layer_of,
)
from fxopt.graph.marks import Origin
from fxopt.graph.metadata import readers_of, reads_metadata_only
from fxopt.graph.nodes import SourceLine, TensorInfo, info_of, input_of, is_tensor, operation_name, target_name
from fxopt.graph.replaceable import does_nothing, read_instead_conditions
from fxopt.graph.site import NEEDS_SHAPES, Match, Miss, Scan
from fxopt.graph.strides import Memory, copy_for, memory_needed, needs_contiguous
from fxopt.graph.writes import unwritten_condition
from fxopt.recording.patch import Patch

__all__ = [
    "ADDMM_CALLS",
    "BATCH_NORM_CALLS",
    "CONV_CALLS",
    "DECOMPOSED_LINEAR_CALLS",
    "LINEAR_CALLS",
    "NEEDS_SHAPES",
    "AddmmLayer",
    "BatchNormLayer",
    "Condition",
    "Conditions",
    "ConvLayer",
    "Entry",
    "Exactness",
    "Fingerprint",
    "FxoptError",
    "FxoptWarning",
    "GraphIndex",
    "Held",
    "Layer",
    "Ledger",
    "LinearLayer",
    "Log",
    "LoggedStep",
    "Match",
    "Memory",
    "Miss",
    "ModelError",
    "Origin",
    "Pass",
    "Patch",
    "ReversibleTransformation",
    "RewriteError",
    "Rewriter",
    "RuleError",
    "Scan",
    "SourceLine",
    "TensorInfo",
    "Transformation",
    "Unmet",
    "as_pass",
    "bytes_retained",
    "calls_linear",
    "commit",
    "compose",
    "copy_for",
    "decide",
    "decomposed_linear_miss",
    "does_nothing",
    "dtype_conditions",
    "fingerprint",
    "info_of",
    "input_of",
    "is_tensor",
    "jump_condition",
    "layer_conditions",
    "layer_of",
    "memory_needed",
    "module_conditions",
    "module_miss",
    "needs_contiguous",
    "of_type",
    "operation_name",
    "path_beside",
    "present",
    "rank_condition",
    "read_instead_conditions",
    "readers_of",
    "reads_metadata_only",
    "record",
    "remove_layer",
    "remove_tensors",
    "set_arguments",
    "set_tensors",
    "shared_copy",
    "target_name",
    "unaltered_conditions",
    "unread_condition",
    "unwritten_condition",
    "with_tensors",
]

if not _typing.TYPE_CHECKING:  # else every name would be right

    def __getattr__(name):
        return _errors.renamed(__name__, name, {"bytes_kept": "bytes_retained"})
