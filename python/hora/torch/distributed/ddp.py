# SPDX-License-Identifier: Apache-2.0
"""Gradients of DistributedDataParallel by the names of their parameters.

PyTorch reads the annotations of a hook, so they are no strings here.
"""

import weakref
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hora.torch as hvd
from hora import _job
from hora._errors import HoraArgumentError
from hora.torch.distributed.pytorch import GradBucket
from hora.torch.distributed.started import Started
from hora.torch.distributed.starting import Group


class _Known(NamedTuple):
    """The names of operations on the gradients of a model."""

    label: str
    names: dict[int, str]  # of parameters, by their ids; the model keeps them


_known: weakref.WeakKeyDictionary[torch.nn.Module, _Known] = weakref.WeakKeyDictionary()


def ddp_hook(state: DistributedDataParallel, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages a bucket of gradients, as DistributedDataParallel does without a hook. In errors, in warnings
    of late ranks and in the timeline the operation has the names of its parameters, such as
    "gradient.0.layers.3.weight..layers.1.bias".

        model = DistributedDataParallel(model)
        model.register_comm_hook(model, hora.torch.distributed.ddp_hook)

    Args:
        state: the DistributedDataParallel, whose process group is one of Hora's.
        bucket: PyTorch's GradBucket.

    Returns:
        A future of the bucket's tensor with the averages.

    Raises:
        HoraArgumentError (a ValueError): the process group is of another backend.
    """
    group = state.process_group
    if not isinstance(group, Group):
        raise HoraArgumentError(
            f"ddp_hook: the model's process group is of the backend {dist.get_backend(group)}; "
            'give DistributedDataParallel one of "hora"'
        )
    name = _name_of(state, group, bucket)
    tensor: torch.Tensor = bucket.buffer()

    def start() -> Started:
        handle = hvd.allreduce_async_(tensor, name=name, op=hvd.Average, process_set=group.members)
        return Started([handle], [tensor])

    return group.run("all_reduce", None, start).future_of(lambda outputs: outputs[0])


def _name_of(model: DistributedDataParallel, group: Group, bucket: GradBucket) -> str:
    known = _known.get(model)
    if known is None:
        names = {id(parameter): name for name, parameter in model.module.named_parameters()}
        label = _job.object_name("gradient", group.members.process_set_id)
        known = _known[model] = _Known(label, names)
    parameters = bucket.parameters()
    ends = [known.names.get(id(each), f"bucket{bucket.index()}") for each in (parameters[0], parameters[-1])]
    return ".".join([known.label, "..".join(dict.fromkeys(ends))])
