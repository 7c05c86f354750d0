# SPDX-License-Identifier: Apache-2.0
import enum
from collections.abc import Sequence
from types import TracebackType

from typing_extensions import CapsuleType

__version__: str

def let_go_of_ended() -> None:
    """Lets go of what was lent to operations on the host that have ended, though nobody has waited for
    them."""

def shutdown_at_exit(runtime: Runtime, reasons: dict[int, str], kept: object) -> bool:
    """Makes it leave the job when this process calls exit(), for the reason of that status; and keeps the
    object for ever. False: there is no memory to do so."""

def stack_signal() -> tuple[int, int]:
    """Its number, and the pipe to write to; -1: there is none."""

def adopt_stack_handler() -> None: ...
def report_end(error: str, where: str, trace: str) -> bool: ...
def mpi_library() -> str: ...
def mpi_threads() -> bool: ...
def nccl_library(packaged: str) -> tuple[str, str]:
    """Path and version ("2.28.9"); two empty strings: there is none."""

def gpu_support() -> bool:
    """Whether there is a libhora_nccl.so."""

def gpus() -> int: ...

class Operation(enum.Enum):
    allreduce = ...
    broadcast = ...
    allgather = ...
    barrier = ...
    alltoall = ...
    reducescatter = ...
    join = ...
    add_process_set = ...
    remove_process_set = ...
    gather = ...
    scatter = ...
    reduce = ...
    scan = ...

class DType(enum.Enum):
    uint8 = ...
    int8 = ...
    int16 = ...
    int32 = ...
    int64 = ...
    float16 = ...
    bfloat16 = ...
    float32 = ...
    float64 = ...
    bool = ...

class ReduceOp(enum.Enum):
    average = ...
    sum = ...
    min = ...
    max = ...
    product = ...
    adasum = ...

class Memory:
    @property
    def address(self) -> int: ...
    @property
    def device(self) -> int | None:
        """The number of the GPU whose memory it is; None: the host's."""

    def dlpack(self, dtype: DType, shape: Sequence[int], offset: int = 0) -> CapsuleType:
        """Contiguous elements, from that byte on; the capsule keeps the memory."""
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class LentArray:
    """Another library's array, as DLPack gives it; keeps it alive."""

    def __init__(self, capsule: CapsuleType) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def contiguous(self) -> bool: ...
    @property
    def device(self) -> int | None:
        """The number of the GPU that it is on; None: it is in the host's memory."""

class Outcome:
    """How an operation ended."""

    @property
    def shape(self) -> list[int]: ...
    @property
    def rows(self) -> list[int]:
        """allgather, gather: the first dimension that each rank of the set brought; alltoall: the rows that
        each sent;
        scatter: the rows that each got."""
    @property
    def contributed(self) -> bool:
        """False: every rank was absent, and the output was not touched."""
    @property
    def memory(self) -> Memory | None:
        """allgather, alltoall, gather, scatter, and a message received without an output: the output."""
    @property
    def last_rank(self) -> int:
        """join: the rank that joined last."""
    @property
    def process_set(self) -> int:
        """add_process_set: its number."""
    @property
    def source(self) -> int:
        """A message that was received: the rank that sent it."""
    @property
    def tag(self) -> int: ...
    @property
    def dtype(self) -> DType:
        """A message that was received: of its elements."""
    @property
    def finite(self) -> bool:
        """check_finite: whether all that travelled together is finite, once the operation has ended."""

class Envelope:
    """What is written on a message."""

    @property
    def source(self) -> int: ...
    @property
    def tag(self) -> int: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def object(self) -> bool:
        """Its elements are the bytes of an object."""

class Entry:
    """A tensor on loan: what is to be done with it, and where its elements lie."""

    def __init__(
        self,
        operation: Operation,
        name: str,
        dtype: DType,
        shape: Sequence[int],
        input: int = 0,
        output: int = 0,
        process_set: int = 0,
        device: int | None = None,
        stream: int = 0,
        op: ReduceOp = ...,
        prescale: float = 1.0,
        postscale: float = 1.0,
        wire: DType = ...,
        root: int = 0,
        *,
        absent: bool = False,
        splits: Sequence[int] = (),
        ranks: Sequence[int] = (),
        divide_by_initial_size: bool = True,
        check_finite: bool = False,
        padded: bool = False,
        failed_with: str = "",
        strides: Sequence[int] = (),
    ) -> None: ...

class BlockingScope:
    """In it, this thread waits for what it submits as soon as it has, so that no other is woken to see to
    that."""

    def __init__(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class Handle:
    """An operation under way. Keeps what is lent to it until it has ended, also if the handle is dropped."""

    def keep(self, lent: object) -> Handle:
        """Itself, which keeps that now."""
    def has_ended(self) -> bool: ...
    def let_go_if_ended(self) -> bool: ...
    def poll(self) -> bool:
        """The same, for who asks until it has: leaves this core to whoever has work to do first."""

    def wait(self) -> Outcome:
        """When it has ended; lets go of what is lent to it, also if it raises."""
    def wait_for_end(self) -> Outcome:
        """The same."""
    def wait_on(self, stream: int) -> Outcome:
        """On a GPU: makes that stream (a cudaStream_t) wait for the end, and returns once the GPU has the
        work."""

class ExpectedDelay:
    def end(self) -> None: ...

class Runtime:
    def __init__(self, mpi_communicator: int | None, packaged_nccl: str) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def local_rank(self) -> int: ...
    @property
    def local_size(self) -> int: ...
    @property
    def cross_rank(self) -> int: ...
    @property
    def cross_size(self) -> int: ...
    @property
    def uses_mpi(self) -> bool: ...
    @property
    def can_overlap(self) -> bool: ...
    def allocate(self, bytes: int, device: int | None = None) -> Memory:
        """Zero-filled memory, which the ranks of this host exchange fastest; of a GPU: which NCCL has been
        told of."""

    def copy_for_later(self, to: int, source: int, size: int) -> None:
        """Between addresses of the host, to memory from `allocate`: past the caches where that is faster."""

    def allocate_on(self, stream: int, bytes: int, device: int) -> Memory:
        """A GPU's memory, in the order of that stream."""

    def memory_report(self) -> str: ...
    def submit(self, entry: Entry) -> Handle: ...
    def lend(
        self,
        operation: Operation,
        name: str,
        input: object,
        output: object,
        lent: object,
        process_set: int,
        op: ReduceOp,
        prescale: float,
        postscale: float,
        wire: DType,
        root: int,
        /,
    ) -> Handle | None:
        """Submits an array as DLPack's C functions tell of it; the handle keeps what is `lent`. None: they do
        not, or it is not contiguous on the host, or has elements that Hora does not know."""
    def submit_group(self, entries: Sequence[Entry]) -> list[Handle]: ...
    def send(
        self, dest: int, tag: int, dtype: DType, shape: Sequence[int], input: int, object: bool = False
    ) -> Handle: ...
    def receive(
        self,
        source: int,
        tag: int,
        dtype: DType | None = None,
        shape: Sequence[int] = (),
        output: int = 0,
        object: bool = False,
    ) -> Handle:
        """Into an output of this dtype and shape; without a dtype, into memory that comes with the
        Outcome."""
    def probe(self, source: int, tag: int) -> Envelope | None: ...
    def process_sets(self) -> dict[int, list[int]]: ...
    def expect_delay(self, name: str, seconds: float) -> ExpectedDelay: ...
    def require_alike(
        self, name: str, things: str, items: Sequence[tuple[str, str]], process_set: int
    ) -> None: ...
    def start_timeline(self, path: str, mark_cycles: bool = False) -> None: ...
    def stop_timeline(self) -> None: ...
    def shutdown(self, reason: str = "") -> None: ...
