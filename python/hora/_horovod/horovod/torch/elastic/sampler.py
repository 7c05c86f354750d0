# SPDX-License-Identifier: Apache-2.0
from hora.torch.elastic.sampler import ElasticSampler

__all__ = ["ElasticSampler"]
