# SPDX-License-Identifier: Apache-2.0
"""mpi4py: gradients averaged with Allreduce. NumPy only.

    mpirun -np 2 python examples/moving/mpi4py_before.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 1  loss ...
    epoch 2  loss 0...
"""

import digits
import numpy as np
from mpi4py import MPI

BATCH = 32

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
pixels, labels = (part[rank::size] for part in digits.read())
weights = np.random.default_rng(rank).normal(0, 0.01, (64, 10))
comm.Bcast(weights, root=0)

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
        gradients = np.empty_like(gradient)
        comm.Allreduce(gradient, gradients, op=MPI.SUM)
        weights -= 0.5 * gradients / size
    loss = comm.allreduce(total / steps, op=MPI.SUM) / size
    if rank == 0:
        print(f"epoch {epoch}  loss {loss:.6f}", flush=True)
