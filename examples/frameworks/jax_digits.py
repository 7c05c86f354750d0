# SPDX-License-Identifier: Apache-2.0
"""JAX with optax: a network for images of handwritten digits.

    hrun -np 2 python examples/frameworks/jax_digits.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 2  loss 0...
    parameters: sum ..., equal on 2 ranks
"""

import functools
import pathlib

import hora.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np
import optax

TABLE = pathlib.Path(__file__).resolve().parents[1] / "data/digits.csv"

hvd.init()
table = np.loadtxt(TABLE, delimiter=",", dtype=np.int32)
pixels, labels = table[:, :64].astype(np.float32) / 16, table[:, 64]


def initial(key: jax.Array) -> dict[str, jax.Array]:
    first, second = jax.random.split(key)
    return {
        "hidden": jax.random.normal(first, (64, 32)) / 8,
        "output": jax.random.normal(second, (32, 10)) / 6,
    }


def loss_of(params: dict[str, jax.Array], pixels: jax.Array, labels: jax.Array) -> jax.Array:
    logits = jax.nn.relu(pixels @ params["hidden"]) @ params["output"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


optimizer = hvd.DistributedOptimizer(optax.adam(0.01))
params = hvd.broadcast_parameters(initial(jax.random.key(hvd.rank())))
state = optimizer.init(params)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(params, state, pixels, labels):  # noqa: ANN001, ANN201
    loss, gradients = jax.value_and_grad(loss_of)(params, pixels, labels)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


for epoch in range(3):
    order = np.random.default_rng(epoch).permutation(len(labels))[: len(labels) // 64 * 64]
    losses = []
    for chosen in order[hvd.rank() :: hvd.size()].reshape(-1, 64 // hvd.size()):
        params, state, loss = step(params, state, pixels[chosen], labels[chosen])
        losses.append(loss)
    average = hvd.average_metrics({"loss": jnp.stack(losses).mean()})
    if hvd.rank() == 0:
        print(f"epoch {epoch}  loss {average['loss']:.6f}", flush=True)

flat = np.concatenate([np.asarray(each).ravel() for each in jax.tree.leaves(params)])
everyone = hvd.allgather_object(flat)
if hvd.rank() == 0:
    equal = all(np.array_equal(each, flat) for each in everyone)
    print(f"parameters: sum {flat.sum():.6f}, {'equal' if equal else 'NOT EQUAL'} on {hvd.size()} ranks")
