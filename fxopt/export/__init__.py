"""Exports: a transformed model as files that need neither fxopt nor the model's own code.

export_python(wb.current, "folder")  # model.py and model.safetensors; then: from model import load
"""

from fxopt.export.errors import ExportError
from fxopt.export.python import Exported, export_python

__all__ = ["ExportError", "Exported", "export_python"]
