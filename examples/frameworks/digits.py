# SPDX-License-Identifier: Apache-2.0
"""The data and the networks of the examples in this folder: images of handwritten digits."""

import pathlib

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.utils.data import TensorDataset

TABLE = pathlib.Path(__file__).resolve().parents[1] / "data/digits.csv"


def read() -> TensorDataset:
    """1,797 pairs of pixels, float32[64] from 0 to 1, and a label."""
    table = np.loadtxt(TABLE, delimiter=",", dtype=np.int64)
    return TensorDataset(torch.tensor(table[:, :64] / 16, dtype=torch.float32), torch.tensor(table[:, 64]))


def network() -> nn.Sequential:
    """A small network, with the same parameters on all ranks."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def transformer() -> nn.Sequential:
    """A small transformer for images as sequences of 8 rows, with the same parameters on all ranks."""
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(32, nhead=4, dim_feedforward=64, dropout=0.0, batch_first=True)
    rows = nn.Sequential(nn.Unflatten(1, (8, 8)), nn.Linear(8, 32))
    encoder = nn.TransformerEncoder(layer, num_layers=2)
    return nn.Sequential(rows, encoder, nn.Flatten(), nn.Linear(8 * 32, 10))


def sum_of_parameters(net: nn.Module) -> str:
    """The sum of all parameters, and whether all ranks have the same parameters."""
    whole = [each.full_tensor() if isinstance(each, DTensor) else each for each in net.parameters()]
    flat = torch.cat([each.detach().flatten() for each in whole])
    parts = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, flat)
    equal = all(torch.equal(part, flat) for part in parts)
    return f"{flat.double().sum():.6f}, {'equal' if equal else 'NOT EQUAL'} on {len(parts)} ranks"
