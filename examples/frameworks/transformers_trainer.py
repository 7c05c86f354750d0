# SPDX-License-Identifier: Apache-2.0
"""The Trainer of transformers, which uses the group that is there. An argument names another backend.

    torchrun --standalone --nproc-per-node 2 examples/frameworks/transformers_trainer.py
    hrun -np 2 python examples/frameworks/transformers_trainer.py

Expected output (figures differ a little from machine to machine; ... is any text):
    loss 0...
    loss on held-out images 0...
    parameters: sum ..., equal on 2 ranks
"""

import sys
import tempfile

import digits
import torch
import torch.distributed as dist
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

dist.init_process_group(sys.argv[1] if sys.argv[1:] else "hora")  # before TrainingArguments
torch.manual_seed(1)
images = [{"pixel_values": pixels.view(1, 8, 8), "labels": label} for pixels, label in digits.read()]
shape = dict(image_size=8, patch_size=4, num_channels=1, num_labels=10, initializer_range=0.1)
layers = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
net = ViTForImageClassification(ViTConfig(**shape, **layers))

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        use_cpu=True,
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        num_train_epochs=6,
        ddp_find_unused_parameters=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(net, arguments, train_dataset=images[:1408], eval_dataset=images[1408:])
    trained = trainer.train()
    evaluated = trainer.evaluate()

parameters = digits.sum_of_parameters(net)
if trainer.is_world_process_zero():
    print(f"loss {trained.training_loss:.6f}")
    print(f"loss on held-out images {evaluated['eval_loss']:.6f}")
    print(f"parameters: sum {parameters}")
dist.destroy_process_group()
