// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/config.h>
#include <hora/device.h>
#include <hora/dtype.h>
#include <hora/message.h>
#include <hora/status.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hora {

/// An operation that all ranks do together. Spelled as in MPI. The numbers travel between ranks: append only.
enum class Operation : std::uint8_t {
  allreduce,
  broadcast,
  allgather,
  barrier,
  alltoall,
  reducescatter,
  join,
  add_process_set,
  remove_process_set,
  gather,
  scatter,
  reduce,
  scan
};
inline constexpr int kOperations = 13;
[[nodiscard]] std::string_view name(Operation operation);
/// Whether ranks may bring different numbers of rows, so that the size of its output is known, and
/// Entry::allocate called, only when all have.
[[nodiscard]] bool sizes_its_output(Operation operation);

/// Some of the ranks of a job (a process set). A value.
struct ProcessSet {
  std::vector<int> ranks;  ///< ascending
  std::string name;        ///< empty: the set was made by all ranks of the job
  bool operator==(const ProcessSet&) const = default;
};

/// How an operation ended.
struct Result {
  Status status;
  std::vector<std::int64_t> shape;  ///< of the output, elements per dimension
  bool contributed = true;          ///< false: every rank was `absent`, and the output was not touched
  /// allgather, gather: the first dimension that each rank of the process set brought; alltoall: how many of
  /// the output's rows each sent; scatter: how many rows each got.
  std::vector<std::int64_t> rows = {};
  int last_rank = -1;   ///< join: the rank that joined last
  int process_set = 0;  ///< add_process_set: its number
  /// Entry::check_finite: whether all elements of what travelled together are finite; the same on all ranks.
  bool finite = true;
  // Of a message that `receive` got, and of one that it got and did not want; `shape` is its shape, too.
  int source = -1;  ///< the rank that sent it
  int tag = -1;
  DType dtype = DType::float32;
};

/// A tensor on loan: what is to be done with it, where its elements lie, and whom to tell.
///
/// From `Runtime::submit` until `done` has run (exactly once, always, also on failure) the memory belongs to
/// the runtime: other operations and messages may read what this one only reads, and nothing that it writes;
/// `submit` refuses an overlap, also of its own input and output unless they begin at the same byte.
/// Elements are contiguous, first dimension slowest, in host memory or in that of one GPU. A GPU
/// that does not end what it was given when the job fails may use them for ever: then the entry is kept, with
/// `done` and what that owns, such as the memory. A value.
struct Entry {
  Operation operation = Operation::allreduce;
  /// Equal on all ranks; may be used again once its operation is done, on a GPU once the work has been given
  /// to that. Each process set has names of its own. join and what concerns process sets itself needs none.
  std::string name;
  int process_set = 0;  ///< which ranks take part; 0: all. remove_process_set: the one to remove
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;  ///< elements per dimension; empty: a scalar
  Device device =
      {};  ///< where input and output lie, and what `allocate` returns; its kind is equal on all ranks
  /// On a GPU: the stream (a cudaStream_t) on which the input is made. Work that is on it when this is
  /// submitted ends before the input is read and the output is written. Users of the output call
  /// `Handle::wait_on`. Null: CUDA's default stream. cudaStreamPerThread is that of the thread which submits,
  /// and not for operations that size their output.
  void* stream = nullptr;
  const void* input = nullptr;
  /// As large as the input, and may be the input. allgather, alltoall, gather, scatter: see `output_rows`.
  /// reducescatter: this rank's rows only, see `scattered_rows`. reduce: only the root needs one.
  void* output = nullptr;

  // allreduce, reducescatter, reduce: output = postscale * op(prescale * input of every rank)
  // scan: the same of the inputs of this rank and those before it in the process set
  ReduceOp op = ReduceOp::average;
  double prescale = 1.0;
  double postscale = 1.0;
  /// float16 or bfloat16: float32 and float64 elements travel as that; others travel as they are.
  /// float8_e4m3fn or float8_e5m2, for a sum or an average of floats, and nothing else: they travel as
  /// block-scaled floats ("MXFP8"). Each 32 elements have a scale, a power of two for which none is too
  /// large. Elements are rounded to 4 or 3 bits of precision, and sums made in float32. An allreduce rounds
  /// them again, so that all ranks get the same; reducescatter and reduce do not.
  DType wire = DType::float32;
  bool absent = false;  ///< this rank has nothing to add and counts as zeros; `input` is not read
  /// Not empty: this rank cannot bring its tensor, and this is why, as it follows "rank 1's ", such as
  /// "backward() failed: bad batch". Input and output are not used. The operation fails on all ranks, with
  /// Error(rank_failed), which says this; the job goes on.
  std::string failed_with = {};
  /// allreduce: where the elements lie, in elements for each dimension, if it is not in the order of the
  /// shape; there are no gaps. Elements are reduced as they lie, so this must be equal on all ranks. Empty:
  /// in order.
  std::vector<std::int64_t> strides = {};
  bool check_finite = false;  ///< allreduce: whether Result::finite is wanted; equal on all ranks
  /// allreduce, in place in memory from Runtime::allocate of a GPU: what lies between its end and the next
  /// multiple of 64 bytes is padding, and may be overwritten. Then what lies side by side travels as one.
  bool padded = false;

  /// broadcast, scatter: the rank (of the whole job) whose elements the others receive; gather, reduce: the
  /// one that receives.
  int root = 0;

  /// alltoall, and the root of a scatter: how many rows (of the first dimension) go to each rank of the
  /// process set, in its order; what is left over stays. Empty: equal parts, for scatter by `scattered_rows`.
  std::vector<std::int64_t> splits = {};

  /// join: whether averages are divided by the size of the process set, as if the ranks that have joined had
  /// brought zeros; else by the number of ranks that have not joined. The same on all ranks.
  bool divide_by_initial_size = true;

  std::vector<int> ranks = {};  ///< add_process_set: who is in it, in any order
  std::string set_name = {};    ///< add_process_set: see Runtime::add_process_set

  /// allgather, alltoall, gather, scatter: returns memory for an output of this shape. Called once, on the
  /// thread that `done` is called on, when all ranks have said how much they bring. gather: of no rows,
  /// except on the root. On a GPU the output is written behind what has been put on `stream` by then, too.
  std::function<void*(const std::vector<std::int64_t>& shape)> allocate;
  /// In place of `allocate`, on a GPU: gets memory for the output that Hora has taken, which waits for
  /// nothing. Work on `stream` may still use it when the last owner releases it. Called as `allocate` is.
  std::function<void(std::shared_ptr<std::byte> memory, const std::vector<std::int64_t>& shape)> accept = {};

  /// In place of both: `output` takes the result, and has so many rows. A result of another number of rows
  /// ends the operation with Error(mismatch) on this rank alone, and `output` is not written. gather: 0
  /// except on the root. The memory is no part of the input.
  std::optional<std::int64_t> output_rows = {};

  /// Called exactly once, on one of Hora's threads or on one that waits for an operation, when the GPU, too,
  /// has done its work. Must not throw or block. `CompletionQueue` tells other threads.
  std::function<void(const Result&)> done;
};

/// A message from one rank to another: what `Runtime::send` is to send, or what `Runtime::receive` wants.
///
/// Until `done` has run (exactly once, always, also on failure) the memory belongs to the runtime, as an
/// Entry's does. Elements are contiguous, in host memory, first dimension slowest. A value.
struct Message {
  /// send: the rank (of the whole job) that receives it; receive: the one that sends it, or kAnySource.
  int peer = 0;
  int tag = 0;  ///< 0 or more; receive: or kAnyTag
  /// Sender and receiver are in it, and give the same one: each process set has messages of its own.
  int process_set = 0;
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;  ///< elements per dimension; empty: a scalar
  const void* input = nullptr;      ///< send: the elements
  void* output = nullptr;           ///< receive: where elements of exactly this dtype and shape go, ...
  /// receive: ... or, in its place, what returns memory for a message of whatever dtype and shape; then those
  /// above are not read. Called once at most, on any thread; must not block or call this Runtime. An
  /// exception that it throws ends the receive; the message is lost.
  std::function<void*(DType dtype, const std::vector<std::int64_t>& shape)> allocate;
  /// The elements are bytes that spell an object, such as a pickle of Python's, not a tensor. Neither is
  /// received as the other: that ends the receive with Error(mismatch), as another dtype would.
  bool object = false;

  /// Called exactly once, on any thread: Hora's, or the one in `send` or `receive`, before that returns. Must
  /// not throw or block.
  std::function<void(const Result&)> done;
};

/// An operation under way. Copies refer to the same one. Thread-safe. In a forked child, waiting for an
/// operation that has not ended throws Error(unavailable).
class Handle {
 public:
  struct State;
  explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// Whether the operation has ended.
  [[nodiscard]] bool has_ended() const noexcept;
  /// Whether `wait` would not block. For loops that ask often: first lets other threads use this core.
  [[nodiscard]] bool poll() const;
  /// Blocks until the operation has ended or the time is over; returns whether it has ended. The thread may
  /// carry out operations meanwhile. If another rank stands still in one of these, the call returns only when
  /// that has failed (HORA_OPERATION_TIMEOUT).
  [[nodiscard]] bool wait_for(std::chrono::milliseconds time) const;
  /// Blocks until the operation has ended. Throws Error with its status unless that is ok.
  const Result& wait() const;
  /// Blocks until `wait_on` would return at once, or the time is over, as in `wait_for`; whether it would.
  [[nodiscard]] bool wait_launched_for(std::chrono::milliseconds time) const;
  /// On a GPU: blocks only until the operation's work has been given to the GPU, and makes what is put on
  /// `stream` (a cudaStream_t of the same GPU) from now on wait for that work. Should it fail later, the
  /// output holds undefined values, and whatever is asked of this Runtime next throws. Elsewhere the same as
  /// `wait`. `finite` is not in the Result yet: only the finished work can tell it. Throws as `wait` does. An
  /// operation that is part of a CUDA graph (Runtime::submit): makes what is put on `stream`, which is being
  /// captured into the same graph, wait for it. All other waiting for it throws Error(invalid_argument).
  const Result& wait_on(void* stream) const;

 private:
  friend class CompletionQueue;
  std::shared_ptr<State> state_;
};

/// A time in which this rank is busy with something else than the other ranks; see Runtime::expect_delay.
/// Moves; for one thread at a time.
class ExpectedDelay {
 public:
  ExpectedDelay(ExpectedDelay&& other) noexcept;
  ExpectedDelay& operator=(ExpectedDelay&& other) noexcept;
  ~ExpectedDelay();

  /// This rank is back. Idempotent.
  void end() noexcept;

 private:
  friend class Runtime;
  explicit ExpectedDelay(std::function<void()> end) : end_(std::move(end)) {}
  std::function<void()> end_;
};

struct World;
class Job;

/// While one lives, its thread waits for what it submits (Handle::wait and its kin) as soon as it has: so no
/// other thread is woken to see to that. For adapters that make blocking calls of `submit` and `wait`. If the
/// thread does not wait, as it throws, somebody is woken when the scope ends. Scopes may be nested.
class BlockingScope {
 public:
  BlockingScope() noexcept;
  ~BlockingScope();
  BlockingScope(const BlockingScope&) = delete;
  BlockingScope& operator=(const BlockingScope&) = delete;
};

/// This process's place in a job: its rank, and the engine that carries out operations with the other ranks.
///
/// `init` gives the job of the process to all who ask for it, whatever language they use. Constructing a
/// Runtime joins a job of its own. Either meets the other ranks; all ranks do it. Destroying the last
/// Runtime of a job waits until every rank does that (`shutdown`), unless the job has failed. In a forked
/// child rank and size still answer; all else throws Error(unavailable), and destroying the copy releases
/// nothing. Thread-safe.
class Runtime {
 public:
  /// Joins the job that these settings describe. Throws Error(timeout) if the ranks do not meet in time,
  /// Error(unavailable) if they may not talk.
  explicit Runtime(const Config& config);
  /// For those who connect the ranks themselves (core/comm/world.h), such as ranks that are threads.
  Runtime(World world, const Config& config);
  /// For `init`.
  explicit Runtime(std::shared_ptr<Job> job);
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  ~Runtime();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] int local_size() const;
  [[nodiscard]] int cross_rank() const;
  [[nodiscard]] int cross_size() const;

  /// Whether tensors move over MPI, or the ranks are those of an MPI communicator.
  [[nodiscard]] bool uses_mpi() const;

  /// Whether reducing what lies in the host's memory can go on while this rank computes. Not where all ranks
  /// are on one host that has no more than one core for each: there reducing takes the core that the rank
  /// computes on, and finds nothing in its caches; so gradients are better submitted together, when all have
  /// been made. The same on all ranks.
  [[nodiscard]] bool can_overlap() const;

  /// Starts an operation and returns at once. Throws Error(invalid_argument) for what this rank can see is
  /// wrong (a name that is under way already, memory that another operation uses, an unknown root, ...) and
  /// Error(aborted) once the job has ended; then `done` is not called. The Handle
  /// brings errors that only all ranks together can see, such as shapes that differ.
  ///
  /// If the entry's stream is being captured into a CUDA graph, the operation becomes a part of that. Each
  /// run of the graph carries it out with the other ranks, whether their operation is part of a graph or not.
  /// Runs of one graph follow each other. The Handle then has `wait_on` alone, for streams of the same
  /// capture. The first `wait_on` calls `done`; without one, `done` is called when the graph is gone, maybe
  /// after the job. Such an operation cannot have an output whose size the ranks must agree on (without
  /// `output_rows`), `absent`, `failed_with` or `check_finite`. One of its kind must have run on the GPU
  /// before, in the same process set and generation. Else this throws Error(invalid_argument). If the
  /// operation fails in a run, its output is NaN or undefined, and the error is logged. The next call of
  /// `submit`, `send`, `receive` or `probe` throws that error.
  Handle submit(Entry entry);

  /// Carries out an operation, and returns when it has ended: the same as `submit` and Handle::wait, and
  /// faster, as this thread does itself what it can. Throws as both.
  Result run(Entry entry);

  /// Starts operations that belong together: either all of them are taken or none, and if the ranks disagree
  /// about one, all fail. Throws as for one.
  std::vector<Handle> submit(std::vector<Entry> group);

  /// Starts to send a message to a rank of the job, which may be this one, and returns at once; the other
  /// ranks take no part. Of the messages of one rank that a `receive` could take it takes the one that was
  /// sent first, as in MPI. Small ones have ended for their sender when they have been copied, large ones
  /// when the receiver has taken them; what it has not taken when the job ends is lost. So ranks that send
  /// each other large ones start to receive before they wait. Throws Error(invalid_argument) for what this
  /// rank can see is wrong (no such rank, a negative tag, a process set that one of both ranks is not in),
  /// and Error(aborted) once the job has ended; then `done` is not called. With the Handle come
  /// Error(unavailable), if there is no way to the rank, and Error(aborted), which names the rank, if that
  /// has left the job and not taken a large one. One that waits for the receiver is warned of after
  /// Config::missing_warning, and ends the job after missing_timeout.
  Handle send(Message message);
  /// Starts to receive a message, and returns at once. A message of another dtype or shape than the wanted
  /// one ends it with Error(mismatch), which says both, and is lost; its sender does not notice. Messages
  /// that a rank sent before it left can still be received. A receive of one that it will never send ends
  /// with Error(aborted), which names the rank, and so does a receive from any rank when all others have
  /// left (in a process set: all others in it). One that waits is warned of and ends the job as in `send`.
  /// Error(unavailable), if this process has had no descriptors for the sender's connection for
  /// Config::start_timeout. Throws as `send`.
  Handle receive(Message wanted);
  /// The message that a `receive` of these would take; nothing if none has come yet. It stays where it is.
  /// Throws as `send`, and Error(aborted) if the rank has left the job and nothing is left of what it sent.
  [[nodiscard]] std::optional<Envelope> probe(int source = kAnySource, int tag = kAnyTag,
                                              int process_set = 0);

  /// Makes a process set of these ranks of the job, and returns its number: 1, 2, 3, ..., never one twice.
  ///
  /// Args: `name`: at most 1,024 bytes. Empty: all ranks of the job call it, also those that are not in the
  /// set, with the same ranks. Else only the ranks of the set call it, with the same name and the same ranks.
  /// Several sets may have the same ranks, each with another name. Sets of other ranks may have the same
  /// name.
  ///
  /// Throws Error(invalid_argument): there is no such rank; there is a set of these ranks and this name
  /// already; or this rank names a set that it is not in. Error(mismatch): ranks give different ranks for a
  /// set without a name.
  int add_process_set(const std::vector<int>& ranks, const std::string& name = {});
  /// Ends a process set; operations that are under way in it end with Error(aborted). Messages in it do not:
  /// receive them before. All ranks of the job call it, and it returns when all have. If the set has a name,
  /// its ranks alone call it, each when it likes, and it returns at once. Operations that need a rank that
  /// has called it fail on the other ranks, and the set ends when all its ranks have. Throws
  /// Error(invalid_argument) if there is no such set, or for 0.
  void remove_process_set(int number);
  /// Every process set, by number. 0: all ranks.
  [[nodiscard]] std::map<int, ProcessSet> process_sets() const;

  /// Says that this rank has nothing more to bring, and waits until every rank of the job says so; returns
  /// the rank that did last. Meanwhile it takes part in what the others do: with zeros in sums and averages,
  /// with what changes nothing in the other reductions, with no rows in allgather. All other operations
  /// of the others fail. `divide_by_initial_size`: see Entry.
  int join(bool divide_by_initial_size = true);

  // A job that `hrun --min-np` starts is elastic: it goes on with other ranks when some are lost. Between two
  // changes its ranks stay the same; that is a generation. Operations of a generation that has ended end with
  // Error(generation_ended), and nothing more can be submitted until this rank has called `next_generation`.
  // Memory from `allocate` stays.

  /// Whether the ranks of this job may change.
  [[nodiscard]] bool is_elastic() const;
  /// The number of the present generation: 0 in a job that is not elastic, else from 1 on. Rank, size, and
  /// their local and cross values are those in this generation. A process that hrun has started while the job
  /// runs is alone in a generation 0, and joins the others by `next_generation`.
  [[nodiscard]] std::uint64_t generation() const;
  /// Whether the present generation has ended, because its ranks change: its operations fail, and the step
  /// under way is made again. So a rank need not compute the rest of it. Any thread; takes nanoseconds.
  [[nodiscard]] bool generation_has_ended() const;
  /// The first rank that has the state of the training, if there are ranks in this generation that do not
  /// have it: they are to get it from there. -1: all ranks have it, or have voted with `commit(false)`. A
  /// rank has it once it has called `commit()`.
  [[nodiscard]] int state_root() const;
  /// How many of the last ranks of this generation are hot spares (`hrun --spares N:hot`): they take part in
  /// every operation and every step, but get no samples to train on, until other ranks are lost. 0 in a job
  /// without them.
  [[nodiscard]] int hot_spares() const;
  /// Votes for a training step, and waits until all ranks have voted: then the step counts on all of them,
  /// and each makes it (the optimizer's step, and the position in the data). A rank calls it when it holds
  /// all reduced gradients of the step. True: the step counts. False: it does not count on any rank, and is
  /// to be made again, with the ranks of a new generation. This rank may be in a new generation when this
  /// returns, also with true, if a rank was lost. One thread at a time. Throws as `submit` and Handle::wait,
  /// but for Error(generation_ended), and as `next_generation`. `has_state`: false on a rank that takes
  /// part in the step while it still gets the state of the training. Others cannot get it from there then.
  bool commit(bool has_state = true);
  /// Whether processes wait to join the job, or ranks are to leave it, as all ranks have heard with the last
  /// `commit`. Then they all call `next_generation` before the next step. Until then nothing changes.
  [[nodiscard]] bool change_is_due() const;
  /// Says whether processes that join may come in, from now on. They find the other ranks where a step
  /// begins, so a program that also communicates between two steps says false before it votes for a step, and
  /// true before the next one begins; true at first. While it is false, ranks that are too few do not pause
  /// either: `change_is_due` tells them to. All ranks call it alike.
  void set_takes_in(bool takes_in);
  /// Asks to leave an elastic job between two steps, as a process should that is to end soon. The ranks hear
  /// of it by `change_is_due`. Then `next_generation` throws Error(aborted) on this one. Nothing in a job
  /// that is not elastic. Any thread, also a signal handler.
  void ask_to_leave();
  /// From here on, until `shutdown`, SIGTERM makes this process ask to leave its elastic job, also while all
  /// its threads wait in operations. A second SIGTERM ends the process, and so does the first one in a forked
  /// child. Nothing changes in a job that is not elastic, if somebody else handles SIGTERM, or if the process
  /// has asked already.
  void leave_on_sigterm();
  /// Whether this process is in no generation any more because it was to leave: it has asked for that, or
  /// `hrun resize` or `hrun drain` has.
  [[nodiscard]] bool has_left() const;
  /// Leaves the present generation, and joins the next one as soon as there are enough ranks. Returns the
  /// number of steps that count. One thread at a time, and not one that runs the engine. Throws
  /// Error(invalid_argument) if the job is not elastic, Error(aborted) or (unavailable) if this process is
  /// in no other generation, and Error(internal) if its GPU has failed, or does not end within
  /// Config::start_timeout what it was given before.
  std::uint64_t next_generation();

  /// Says that this rank is going to be busy for up to `time`, as with an evaluation or a checkpoint, while
  /// others may wait for it: until then, or until what this returns ends, nobody warns of that or gives up
  /// (Config::missing_warning, missing_timeout). Of several that are open the last to end counts. Throws
  /// Error(invalid_argument) if the time is not positive, or more than 30 days.
  [[nodiscard]] ExpectedDelay expect_delay(const std::string& name, std::chrono::milliseconds time);

  /// 1, 2, 3, ..., for each process set by itself: for the names of operations that nobody gave a name. Ranks
  /// of the set that issue them in the same order get the same numbers.
  [[nodiscard]] std::uint64_t next_number(int process_set = 0);
  /// Takes back the number that was given last, of an operation that `submit` refused; so ranks of which only
  /// some made the mistake are still in step. No other number.
  void return_number(std::uint64_t number, int process_set = 0);

  /// Begins to write what all ranks do, and when, to a file: a JSON trace that Perfetto (ui.perfetto.dev) and
  /// chrome://tracing open, with a row for each tensor on each rank. `mark_cycles` also marks when each rank
  /// heard of decisions. Rank 0 writes it, at its call; on the other ranks this does nothing. Throws
  /// Error(invalid_argument) if the file cannot be written, or there is a timeline already.
  void start_timeline(const std::string& path, bool mark_cycles = false);
  /// Ends it; on rank 0 the file is whole when this returns. Does nothing if there is none. The end of the
  /// job ends it, too.
  void stop_timeline();

  /// Memory that the ranks of this host exchange fastest: tensors in it are reduced where they lie.
  /// Zero-filled, aligned to 64 bytes, valid for as long as the pointer lives, also after the Runtime.
  /// `bytes` may be 0. Of a GPU: memory that NCCL has been told of. Throws Error(unavailable) if there is not
  /// that much.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes, Device device = {});
  /// memcpy into memory from `allocate`, in the host, of what is reduced later, such as a gradient while
  /// others are being made: past the caches where that is faster. Thread-safe.
  void copy_for_later(void* to, const void* from, std::size_t bytes);
  /// Memory of a GPU for what is put on `stream` (a cudaStream_t) from now on, not filled; what is on that
  /// stream when the last owner releases it may still use it. Throws Error(unavailable) if there is not that
  /// much.
  [[nodiscard]] std::shared_ptr<std::byte> allocate_on(void* stream, std::size_t bytes, Device device);

  /// The memory that this rank has taken for itself, a line each: of the host, and of its GPU if it used one.
  [[nodiscard]] std::string memory_report() const;

  /// Leaves the job: waits until every rank has called it, and ends what is still pending, messages too, with
  /// Error(aborted). Others that wait for a message of this rank hear at once that it has left. After
  /// Config::missing_warning one line on stderr says who has not called it; that never ends the job. With a
  /// `reason`, such as the text of the exception that ends this program, the job fails: it waits for nobody,
  /// and all other ranks get an Error(aborted) that says the reason. Idempotent.
  void shutdown(const std::string& reason = {});
  /// Whether `shutdown` has been called, by this Runtime or another one of the same job.
  [[nodiscard]] bool was_shut_down() const;

 private:
  std::shared_ptr<Job> job_;
};

/// How many rows of a first dimension of `rows` reducescatter gives to each of `ranks` ranks, and scatter
/// without splits: equal shares, of which the first have one more if it does not divide.
[[nodiscard]] std::vector<std::int64_t> scattered_rows(std::int64_t rows, int ranks);

/// The job of this process. Joins the job that `settings` describes: by default that of the environment, as a
/// launcher sets it, or one of one rank. If this process has joined already, in C, C++ or Python, this is
/// that job, and `settings` is not called: `shutdown` by one ends it for all. Throws as the constructor of
/// Runtime, and what `settings` throws.
[[nodiscard]] Runtime init(const std::function<Config()>& settings = &Config::from_environment);

/// The MPI that libhora_mpi.so uses: "Open MPI v4.1.4". Empty: there is no libhora_mpi.so here. Does not
/// start MPI.
[[nodiscard]] std::string mpi_library();
/// Whether MPI runs in this process, and may be called by several threads at a time (MPI_THREAD_MULTIPLE).
[[nodiscard]] bool mpi_threads();

/// The NCCL that tensors on GPUs would move with here: its path and version, "2.28.9". Empty: there is none,
/// or no libhora_nccl.so. Opens it: the one that HORA_NCCL_LIBRARY names, else `packaged` (see
/// Config::packaged_nccl), else the first that is found.
struct NcclFound {
  std::string path;
  std::string version;
};
[[nodiscard]] NcclFound nccl_library(const std::string& packaged = {});
/// Whether there is a libhora_nccl.so, which tensors on GPUs need. It needs no GPU to be there.
[[nodiscard]] bool gpu_support();
/// How many GPUs this process may use; 0 also if there is no libhora_nccl.so, or no driver.
[[nodiscard]] int gpus();

/// "0.1.0"
[[nodiscard]] const char* version();

}  // namespace hora
