# SPDX-License-Identifier: Apache-2.0
"""Training of PyTorch models that survives failures; see `hora.elastic`.

state = hvd.elastic.TorchState(model, optimizer, epoch=0)

@hvd.elastic.run
def train(state):
    for state.epoch in range(state.epoch, epochs):
        ...
        state.commit()

train(state)
"""

from hora import init, shutdown
from hora.elastic import run, run_fn
from hora.torch.elastic import sampler, state
from hora.torch.elastic.sampler import ElasticSampler
from hora.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "init", "run", "run_fn", "sampler", "shutdown", "state"]
