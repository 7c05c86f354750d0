# SPDX-License-Identifier: Apache-2.0
"""The training of mpi4py_before.py, with Hora and without MPI. NumPy only.

    hrun -np 2 python examples/moving/mpi4py_after.py

Expected output (figures differ a little from machine to machine; ... is any text):
    [0] epoch 0  loss ...
    [0] epoch 1  loss ...
    [0] epoch 2  loss 0...
"""

import digits
import hora
import numpy as np

BATCH = 32

hora.init()
rank, size = hora.rank(), hora.size()
pixels, labels = (part[rank::size] for part in digits.read())
weights = np.random.default_rng(rank).normal(0, 0.01, (64, 10))
weights = hora.broadcast(weights, root_rank=0)

for epoch in range(3):
    total = 0.0
    steps = len(labels) // BATCH
    for step in range(steps):
        chosen = slice(step * BATCH, (step + 1) * BATCH)
        scores = pixels[chosen] @ weights
        likely = np.exp(scores - scores.max(1, keepdims=True))
        likely /= likely.sum(1, keepdims=True)
        right = np.eye(10)[labels[chosen]]
        total -= np.log((likely * right).sum(1)).mean()
        gradient = pixels[chosen].T @ (likely - right) / BATCH
        gradients = hora.allreduce(gradient, op=hora.Sum)
        weights -= 0.5 * gradients / size
    loss = hora.allreduce(np.array(total / steps))
    if rank == 0:
        print(f"epoch {epoch}  loss {loss:.6f}", flush=True)
