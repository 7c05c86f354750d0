# SPDX-License-Identifier: Apache-2.0
from hora.data import AsyncDataLoaderMixin, BaseDataLoader

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]
