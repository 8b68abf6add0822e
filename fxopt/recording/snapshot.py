"""Snapshot of a graph module: enough to put it back, and to find the changes since.

Only lists and dictionaries of references are copied, so taking one costs a few microseconds a node and no memory for
weights. So numbers can be put back only if their tensors were replaced; overwritten ones are noticed.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import GraphModule

from fxopt.recording.graph_state import GraphState
from fxopt.recording.module_state import ModuleState, tensors_of
from fxopt.recording.tensor_snapshot import TensorSnapshot


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A graph module as it was; see `Snapshot.of`."""

    gm: GraphModule
    graph: GraphState
    modules: dict[int, ModuleState]
    """By the identity of the module, each of which is held."""
    tensors: dict[int, TensorSnapshot]
    nested: tuple[GraphState, ...]
    """The graphs of graph modules inside."""

    @classmethod
    def of(cls, gm: GraphModule, copy_tensors: bool = False, with_tensors: bool = True) -> Snapshot:
        """Return the snapshot of `gm` as it is now.

        Args:
            with_tensors: whether to note the state of tensors, which costs a few microseconds each. Without, it stays
                as it is on a restore.
            copy_tensors: whether to copy the numbers of all parameters and buffers too, so that they can be put back if
                they are written over.
        """
        modules: dict[int, ModuleState] = {}
        tensors: dict[int, TensorSnapshot] = {}
        nested: list[GraphState] = []
        for path, module in gm.named_modules():
            modules[id(module)] = state = ModuleState.of(module)
            if module is not gm and isinstance(module, GraphModule):
                nested.append(GraphState.of(module.graph))
            for name, tensor in tensors_of(state) if with_tensors else ():
                if id(tensor) not in tensors:
                    tensors[id(tensor)] = TensorSnapshot.of(f"{path}.{name}" if path else name, tensor, copy_tensors)
        return cls(gm, GraphState.of(gm.graph), modules, tensors, tuple(nested))

    def restore(self) -> list[str]:
        """Put everything back.

        Returns:
            the paths of tensors whose numbers were written over and not copied: those cannot be put back.
        """
        lost = [state.path for state in self.tensors.values() if not state.restore()]
        code = self.gm._code
        for module in self.modules.values():
            module.restore()
        for graph in (self.graph, *self.nested):
            graph.restore()
        self.graph.graph.owning_module = self.gm
        if self.gm._code is not code:
            self.gm.recompile()
        return lost

    def changed_graph_inside(self) -> str:
        """Return the class of a graph module inside whose graph was changed; empty if there is none."""
        for state in self.nested:
            if not state.is_as_it_was():
                return type(state.graph.owning_module).__name__
        return ""
