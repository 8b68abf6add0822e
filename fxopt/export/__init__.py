"""Exports: a transformed model as files that need neither fxopt nor the model's own code.

export_python(wb.current, "folder")  # model.py and model.safetensors; then: from model import load

`export_program` (``.pt2``) and `export_onnx` keep the free sizes. Tables of evidence as text: `to_csv`, `to_markdown`.
"""

from fxopt.export.errors import ExportError
from fxopt.export.program import export_onnx, export_program, program_bytes
from fxopt.export.python import Exported, export_python
from fxopt.export.state import CarriedBack, StateError, to_original, to_transformed
from fxopt.export.tables import to_csv, to_markdown

__all__ = [
    "CarriedBack",
    "ExportError",
    "Exported",
    "StateError",
    "export_onnx",
    "export_program",
    "export_python",
    "program_bytes",
    "to_csv",
    "to_markdown",
    "to_original",
    "to_transformed",
]
