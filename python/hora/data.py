# SPDX-License-Identifier: Apache-2.0
"""Data loaders that read ahead in a thread."""

from __future__ import annotations

import abc
import queue
import threading
from collections.abc import Iterator
from typing import Any


class BaseDataLoader(abc.ABC):
    """Batches, one after the other. Derive from it with `__len__` and `_iterate`."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """How many batches there are."""

    @abc.abstractmethod
    def _iterate(self) -> Iterator[Any]:
        """The batches."""

    def _process_batch(self, batch: Any) -> Any:
        """Prepares a batch where it is used, for example moves it to a device."""
        return batch

    def __iter__(self) -> Iterator[Any]:
        for batch in self._iterate():
            yield self._process_batch(batch)


class _Reader(threading.Thread):
    """Reads batches into a queue of its own, until they end or nobody wants them any more."""

    def __init__(self, batches: Iterator[Any], size: int) -> None:
        super().__init__(name="hora data loader", daemon=True)
        self._batches = batches
        self._queue: queue.Queue[tuple[str, Any]] = queue.Queue(size)
        self._wanted = True

    def run(self) -> None:
        try:
            for batch in self._batches:
                self._queue.put(("batch", batch))
                if not self._wanted:
                    return
            self._queue.put(("end", None))
        except BaseException as error:  # noqa: BLE001 - raised where the batches are used
            self._queue.put(("error", error))

    def take(self) -> tuple[str, Any]:
        return self._queue.get()

    def end(self) -> None:
        self._wanted = False
        while self.is_alive():
            try:
                self._queue.get(timeout=0.01)  # it may be waiting for room
            except queue.Empty:
                continue


class AsyncDataLoaderMixin:
    """Reads the batches of a BaseDataLoader ahead, in a thread:

        class Loader(AsyncDataLoaderMixin, MyDataLoader): ...

    An exception of `_iterate` is raised where the batches are used. Each iteration begins anew.

    Args:
        async_loader_queue_size: how many batches are read ahead; 0: none, and there is no thread.
        debug_data_loader: print which batch was read.
        args, kwargs: for the data loader.
    """

    def __init__(
        self, async_loader_queue_size: int = 64, debug_data_loader: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        self._reader: _Reader | None = None
        super().__init__(*args, **kwargs)

    def close_async_loader(self) -> None:
        """Ends the thread, if there is one."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.end()

    def __iter__(self) -> Iterator[Any]:
        self.close_async_loader()
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()  # type: ignore[misc]
            return
        reader = self._reader = _Reader(self._iterate(), self.async_loader_queue_size)  # type: ignore[attr-defined]
        reader.start()
        number = 0
        kind, batch = reader.take()
        while kind == "batch":
            if self.debug_data_loader:
                print(f"hora: batch {number} was read ahead", flush=True)
            yield self._process_batch(batch)  # type: ignore[attr-defined]
            number += 1
            kind, batch = reader.take()
        reader.join()
        if kind == "error":
            raise batch
