# SPDX-License-Identifier: Apache-2.0
"""Keras with hora.keras. KERAS_BACKEND chooses tensorflow, jax or torch.

    KERAS_BACKEND=jax hrun -np 2 python examples/frameworks/keras_digits.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 2  loss 0...
    test accuracy 0...
    the parameters are equal on 2 ranks
"""

import pathlib

import hora.keras as hvd
import keras
import numpy as np

hvd.init()
table = np.loadtxt(
    pathlib.Path(__file__).resolve().parents[1] / "data/digits.csv", delimiter=",", dtype=np.int64
)
pixels, labels = (table[:, :64] / 16).astype("float32"), table[:, 64]
own = slice(hvd.rank(), 1436, hvd.size())  # the rows of this rank; the last 361 are for the test

model = keras.Sequential(
    [keras.layers.Input((64,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10)]
)
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05 * hvd.size(), momentum=0.9))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer, loss=loss, metrics=["accuracy"])
history = model.fit(
    pixels[own],
    labels[own],
    batch_size=16,
    epochs=6,
    verbose=0,
    callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(0.05 * hvd.size(), warmup_epochs=1),
    ],
)

_, accuracy = model.evaluate(pixels[1436:], labels[1436:], verbose=0)
flat = np.concatenate([each.ravel() for each in model.get_weights()])
equal = (hvd.allgather(flat[np.newaxis]) == flat).all()
if hvd.rank() == 0:
    for epoch, mean in enumerate(history.history["loss"]):
        print(f"epoch {epoch}  loss {mean:.6f}")
    print(f"test accuracy {accuracy:.3f}")
    print(f"the parameters are {'equal' if equal else 'NOT EQUAL'} on {hvd.size()} ranks")
