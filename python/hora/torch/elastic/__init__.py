# SPDX-License-Identifier: Apache-2.0
"""Training of PyTorch models that survives the loss of ranks (`hrun --min-np`).

`Training` is a loop that loses no step: its page is the class. Scripts written for Horovod use `run` and a
`TorchState`, and go back to the last commit:

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
from hora.torch.elastic.progress import Progress
from hora.torch.elastic.sampler import ElasticSampler
from hora.torch.elastic.state import TorchState
from hora.torch.elastic.training import Training

__all__ = [
    "ElasticSampler",
    "Progress",
    "TorchState",
    "Training",
    "init",
    "run",
    "run_fn",
    "sampler",
    "shutdown",
    "state",
]
