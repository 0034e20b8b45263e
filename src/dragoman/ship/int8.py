"""ONNX graphs in whole numbers: weights of one byte, and products of such weights with rows that
are rounded as they come.

Each row of a product is rounded by a scale of its own, and each column of the weights, too. So an
answer does not depend on its neighbours in a batch, which it would with one scale for all rows.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

SMALL = 1024  # tensors of fewer numbers are left as they are
LAYERS = ("GRU", "LSTM", "RNN")
Floats = npt.NDArray[np.float32]


def shrink(content: bytes) -> bytes:
    """A graph's file, with its matrices in int8."""
    model = onnx.load_from_string(content)
    graph = _Graph(model.graph)
    graph.rewrite()
    return model.SerializeToString()  # type: ignore[no-any-return]


class _Graph:
    """A graph that is being rewritten, node by node."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.tensors = {one.name: one for one in graph.initializer}
        self.nodes: list[Any] = []
        self.made: set[str] = set()

    def rewrite(self) -> None:
        for node in list(self.graph.node):
            weight = node.input[1] if node.op_type in ("MatMul", "Gemm") else ""
            if self._large(weight, 2):
                self._product(node, weight)
            elif node.op_type == "Gather" and self._large(node.input[0], 2):
                self._lookup(node)
            else:
                self.nodes.append(node)
        rest = [(name, axis) for name, axis in self._used().items() if self._large(name)]
        self.nodes[:0] = [node for name, axis in rest for node in self._unpacked(name, axis)]
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        kept = self._used().keys()
        for name in [name for name in self.tensors if name not in kept]:
            self.graph.initializer.remove(self.tensors[name])

    def _large(self, name: str, dims: int | None = None) -> bool:
        tensor = self.tensors.get(name)
        if tensor is None or tensor.data_type != onnx.TensorProto.FLOAT or len(tensor.dims) < 2:
            return False
        return int(np.prod(tensor.dims)) >= SMALL and dims in (None, len(tensor.dims))

    def _used(self) -> dict[str, int]:
        """The names that nodes read, with the axis along which a layer's weights have scales."""
        found: dict[str, int] = {}
        for node in self.nodes:
            for name in _reads(node):
                found[name] = 1 if node.op_type in LAYERS else 0
        return found

    def _product(self, node: Any, weight: str) -> None:
        """x W + b in whole numbers."""
        flipped = any(a.name == "transB" and a.i for a in node.attribute)
        small, scale = self._small(weight, f"{weight}.{'rows' if flipped else 'columns'}", flipped)
        x, y = node.input[0], node.output[0]
        parts = {part: f"{y}.{part}" for part in ("size", "scale", "ratio", "whole", "tiny", "sum")}
        self._constants()
        self._add("Abs", [x], f"{y}.abs")
        self._add("ReduceMax", [f"{y}.abs", "int8.last"], parts["size"], keepdims=1)
        self._add("Max", [parts["size"], "int8.tiny"], f"{y}.most")
        self._add("Div", [f"{y}.most", "int8.steps"], parts["scale"])
        self._add("Div", [x, parts["scale"]], parts["ratio"])
        self._add("Round", [parts["ratio"]], parts["whole"])
        self._add("Add", [parts["whole"], "int8.middle"], f"{y}.lifted")
        self._add("Cast", [f"{y}.lifted"], parts["tiny"], to=onnx.TensorProto.UINT8)
        self._add("MatMulInteger", [parts["tiny"], small, "int8.zero"], parts["sum"])
        self._add("Cast", [parts["sum"]], f"{y}.float", to=onnx.TensorProto.FLOAT)
        self._add("Mul", [f"{y}.float", parts["scale"]], f"{y}.scaled")
        biased = len(node.input) > 2
        self._add("Mul", [f"{y}.scaled", scale], f"{y}.product" if biased else y)
        if biased:
            self._add("Add", [f"{y}.product", node.input[2]], y)

    def _lookup(self, node: Any) -> None:
        """Rows of a table, and their scales."""
        table, y = node.input[0], node.output[0]
        small, scale = self._small(table, f"{table}.table", None)
        self._add("Gather", [small, node.input[1]], f"{y}.int8", axis=0)
        self._add("Gather", [scale, node.input[1]], f"{y}.scale", axis=0)
        self._add("Cast", [f"{y}.int8"], f"{y}.float", to=onnx.TensorProto.FLOAT)
        self._add("Mul", [f"{y}.float", f"{y}.scale"], y)

    def _unpacked(self, name: str, axis: int) -> list[Any]:
        """Weights that are floats again when a session starts, but not in the file."""
        values = numpy_helper.to_array(self.tensors[name])
        others = tuple(i for i in range(values.ndim) if i != axis)
        scale = _scale(values, others)
        self.graph.initializer.remove(self.tensors.pop(name))
        self._store(f"{name}.int8", _whole(values, scale))
        self._store(f"{name}.scale", scale.reshape(-1))
        return [
            helper.make_node(
                "DequantizeLinear", [f"{name}.int8", f"{name}.scale"], [name], axis=axis
            )
        ]

    def _small(self, name: str, stem: str, flipped: bool | None) -> tuple[str, str]:
        """The names of a matrix in int8 and of its scales: of a table (`flipped` is None), or of a
        factor (in, out), which may be stored the other way round.
        """
        if stem not in self.made:
            values = numpy_helper.to_array(self.tensors[name])
            values = values.T if flipped else values
            scale = _scale(values, 1 if flipped is None else 0)
            self._store(f"{stem}.int8", np.ascontiguousarray(_whole(values, scale)))
            self._store(f"{stem}.scale", scale if flipped is None else scale.reshape(-1))
            self.made.add(stem)
        return f"{stem}.int8", f"{stem}.scale"

    def _constants(self) -> None:
        if "int8.steps" not in self.made:
            self.made.add("int8.steps")
            self._store("int8.steps", np.float32(127))
            self._store("int8.tiny", np.float32(1e-9))
            self._store("int8.middle", np.float32(128))  # processors like unsigned rows
            self._store("int8.zero", np.uint8(128))
            self._store("int8.last", np.array([-1], np.int64))

    def _store(self, name: str, values: Any) -> None:
        tensor = numpy_helper.from_array(np.asarray(values), name)
        self.graph.initializer.append(tensor)
        self.tensors[name] = self.graph.initializer[-1]

    def _add(self, kind: str, inputs: list[str], output: str, **options: Any) -> None:
        self.nodes.append(helper.make_node(kind, inputs, [output], **options))


def _scale(values: Floats, axis: int | tuple[int, ...]) -> Floats:
    largest = np.abs(values).max(axis, keepdims=True)
    return np.where(largest > 0, largest / 127, 1).astype(np.float32)


def _whole(values: Floats, scale: Floats) -> npt.NDArray[np.int8]:
    return np.round(values / scale).clip(-127, 127).astype(np.int8)


def _reads(node: Any) -> list[str]:
    """The names a node reads, those of the graphs inside it included."""
    inner = [n for a in node.attribute if a.HasField("g") for one in a.g.node for n in _reads(one)]
    return [*node.input, *inner]
