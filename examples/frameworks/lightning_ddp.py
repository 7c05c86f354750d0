# SPDX-License-Identifier: Apache-2.0
"""Lightning's Trainer with DDP. An argument names another backend.

    python examples/frameworks/lightning_ddp.py                # Lightning starts the other rank itself
    hrun -np 2 python examples/frameworks/lightning_ddp.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 2  loss 0...
    parameters: sum ..., equal on 2 ranks
"""

import sys

import digits
import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader


class Reader(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = digits.network()

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        pixels, labels = batch
        loss = cross_entropy(self.net(pixels), labels)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def on_train_epoch_end(self) -> None:
        self.print(f"epoch {self.current_epoch}  loss {self.trainer.callback_metrics['loss']:.6f}")

    def on_train_end(self) -> None:
        self.print(f"parameters: sum {digits.sum_of_parameters(self)}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


backend = sys.argv[1] if sys.argv[1:] else "hora"
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=2,
    strategy=DDPStrategy(process_group_backend=backend),
    max_epochs=3,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Reader(), DataLoader(digits.read(), batch_size=32, shuffle=True))
