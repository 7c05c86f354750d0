# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch.distributed as Hora's operations take them: rows of one dimension, of a dtype that it
knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hora._errors import HoraArgumentError, HoraInternalError
from hora.torch._ops.lending import known_dtype

Elements = Callable[[torch.Tensor], torch.Tensor]  # `flat` or `numbers`


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements, side by side: a view if they are, else a copy. Elements of a dtype that Hora does not
    know (complex32, float4_e2m1fn_x2, ...) become bytes: it moves them, and does not reduce them."""
    if tensor.layout != torch.strided:
        raise HoraArgumentError(
            f"a sparse tensor of the shape {tuple(tensor.shape)} cannot be moved; make it dense with "
            ".to_dense()"
        )
    elements = tensor.detach().reshape(-1)
    return elements if known_dtype(elements) else elements.view(torch.uint8)


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements, side by side, to be reduced. Those of a dtype that Hora does not know stay as they are,
    and Hora refuses them."""
    return tensor.detach().reshape(-1)


def target(
    output: torch.Tensor, given: torch.Tensor | None = None, elements: Elements = flat
) -> torch.Tensor | None:
    """The elements of an output, for a result that goes straight there. None if they do not lie side by side,
    or lie where those of the input do."""
    if not output.is_contiguous() or (given is not None and _share_memory(output, given)):
        return None
    return elements(output)


def apart(given: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """The input, or a copy if it lies in the output: as FSDP gathers each rank's part in its own place."""
    return given.detach().clone() if _share_memory(output, given) else given


def _share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    ends = [(each.data_ptr(), each.data_ptr() + each.numel() * each.element_size()) for each in (one, other)]
    return ends[0][0] < ends[1][1] and ends[1][0] < ends[0][1]


def filling(outputs: Sequence[torch.Tensor], out: torch.Tensor | None) -> Callable[[list[Any]], None]:
    """Makes the outputs of the one result of an operation, unless that has gone straight to `out`."""

    def finish(results: list[Any]) -> None:
        if out is None and results[0] is not None:
            fill(outputs, results[0])

    return finish


def joined(tensors: Sequence[torch.Tensor], elements: Elements = flat) -> torch.Tensor:
    """The elements of all, one after the other."""
    parts = [elements(tensor) for tensor in tensors]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def fill(outputs: Sequence[torch.Tensor], whole: torch.Tensor) -> None:
    """Divides `whole` among the outputs. Raises HoraInternalError if they are not as large together."""
    begin = 0
    sizes = sum(output.numel() * output.element_size() for output in outputs)
    size = whole.numel() * whole.element_size()
    if sizes != size:
        raise HoraInternalError(
            f"the outputs have {sizes} bytes, and the result has {size}: give outputs of the shapes that the "
            "ranks send"
        )
    with torch.no_grad():
        for output in outputs:
            part = whole[begin : begin + output.numel() * output.element_size() // whole.element_size()]
            begin += len(part)
            values = part if part.dtype == output.dtype else part.view(output.dtype)
            output.copy_(values.view(output.shape))


def flat_size(tensor: torch.Tensor) -> int:
    """How many elements `flat` makes of it."""
    return tensor.numel() if known_dtype(tensor) else tensor.numel() * tensor.element_size()
