# SPDX-License-Identifier: Apache-2.0
from hora.torch.elastic import ElasticSampler, TorchState, init, run, run_fn, shutdown

from . import sampler as sampler
from . import state as state


def _reset() -> None:
    shutdown()
    init()


__all__ = ["ElasticSampler", "TorchState", "init", "run", "run_fn", "sampler", "shutdown", "state"]
