// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace hora {

/// 32 random bytes that all ranks of a job share and nobody else knows.
using Secret = std::array<unsigned char, 32>;

/// Every knob of the runtime: its default, meaning, unit, and the environment variable that sets it.
/// A value. `from_environment()` is what `init()` uses; a program may fill one in by itself instead.
/// Where a variable is not set, one of Horovod's counts that means the same: HOROVOD_FUSION_THRESHOLD (bytes;
/// 0: nothing travels together), HOROVOD_START_TIMEOUT and HOROVOD_GLOO_TIMEOUT_SECONDS (HORA_START_TIMEOUT),
/// HOROVOD_STALL_CHECK_DISABLE and HOROVOD_STALL_CHECK_TIME_SECONDS (HORA_MISSING_WARNING),
/// HOROVOD_STALL_SHUTDOWN_TIME_SECONDS (HORA_MISSING_TIMEOUT),
/// HOROVOD_LOG_LEVEL (trace is debug, fatal is error).
struct Config {
  // This process's place in the job. Where HORA_RANK is not set, the variables of torchrun, mpirun, mpiexec,
  // srun, flux or Kubernetes tell it (core/base/rank_assignment.h). Without a launcher it is rank 0 of 1.
  int rank = 0;        ///< HORA_RANK
  int size = 1;        ///< HORA_SIZE
  int local_rank = 0;  ///< HORA_LOCAL_RANK: among the ranks of this host
  int local_size = 1;  ///< HORA_LOCAL_SIZE; 0: this and the local rank are found out when the ranks meet
  int cross_rank = 0;  ///< HORA_CROSS_RANK: this host among those that have a process with this local rank
  int cross_size = 1;  ///< HORA_CROSS_SIZE; 0: this and the cross rank are found out when the ranks meet

  // Where another launcher than hrun started the ranks: what it is called, for messages, and what tells this
  // job from its others.
  std::string launcher;
  std::string job;
  std::string
      meeting_place;  ///< all ranks are on this host: the local socket at which they agree on the rest

  // How the ranks find and recognise each other.
  /// HORA_COORDINATOR: "address:port" on which rank 0 listens; several, separated by commas, are all tried.
  std::string coordinator;
  std::optional<int> coordinator_fd;  ///< HORA_COORDINATOR_FD: rank 0 only, a socket that listens there
  std::optional<int> news_fd;         ///< HORA_NEWS_FD: a socket on which hrun tells how other ranks ended
  std::optional<int> question_fd;     ///< HORA_QUESTION_FD: a socket on which hrun asks this rank how it is
  /// HORA_MEMBER_FD: of a job whose ranks may change, a socket on which hrun and this process tell each other
  /// who is a member (core/elastic); none: the ranks of the job never change.
  std::optional<int> member_fd;
  /// HORA_LIFE_FD: of such a job, memory by which hrun hears early that this process ends.
  std::optional<int> life_fd;
  std::uint64_t member_id = 0;  ///< HORA_MEMBER_ID: of this process, by which hrun knows it there
  /// HORA_JOINS_LATE: the job runs already, and this process joins it by Runtime::next_generation.
  bool joins_late = false;
  Secret secret{};  ///< read once from the pipe named by HORA_SECRET_FD
  /// HORA_SECRET_FILE: where hrun gives no secret, a file of at least 32 random bytes, for its owner alone,
  /// that all hosts can read; the secrets of different jobs are derived from it.
  std::string secret_file;
  /// The ranks are the processes of this communicator (MPI_Comm_c2f gives its number), in its order: who this
  /// process is and how the ranks find each other comes from there. MPI runs until the Runtime has ended, and
  /// knows all ranks that the launcher has started (`hrun --mpi`, mpirun); else Error(invalid_argument).
  std::optional<int> mpi_communicator;
  std::chrono::milliseconds start_timeout{30'000};  ///< HORA_START_TIMEOUT, seconds: for all ranks to meet

  // When it is taken for granted no longer that all is well; seconds; 0: always. Rank 0's count for who is
  // missing.
  /// HORA_HEARTBEAT_TIMEOUT. A rank that gives no sign of life for so long is lost: its process is stopped,
  /// or its host or the network is down. Ranks beat once a second whatever their user
  /// does, and four times in such a time where that is oftener. hrun sets 1 s in elastic jobs.
  std::chrono::milliseconds heartbeat_timeout{5'000};
  /// HORA_MISSING_WARNING. Some ranks wait for a tensor that others, which live, have not submitted for so
  /// long: a line says which, and what those do instead; again each time that passes.
  std::chrono::milliseconds missing_warning{60'000};
  /// HORA_MISSING_TIMEOUT. The same for so long: the job fails, on all ranks. See Runtime::expect_delay.
  std::chrono::milliseconds missing_timeout{600'000};
  /// HORA_OPERATION_TIMEOUT. An operation that all ranks have submitted makes no progress for so long: the
  /// job fails, on all ranks. On a GPU this begins when its inputs are ready; and by way of the host's memory
  /// it holds for a copy to or from there, too.
  std::chrono::milliseconds operation_timeout{120'000};

  /// HORA_NETWORK: which of a host's addresses ranks use for each other: networks ("10.1.0.0/16",
  /// "fd00::/8") and names of interfaces ("eth0"), separated by commas; empty: any, the best first. Where
  /// one address is selected ranks listen there alone.
  std::string network;

  /// HORA_ENCRYPTION: what travels encrypted between ranks over sockets. "control": what they agree on, and
  /// the heads of what else they send; "all": elements and objects, too. Rank 0's counts.
  std::string encryption = "control";

  // How ranks agree, and how tensors move.
  /// HORA_TREE: ranks that do not all share memory agree over a tree, in which each has so many children, at
  /// most 64; 0: each with rank 0 alone. No value: 8 from 65 ranks up, else 0. Rank 0's counts.
  std::optional<int> tree_radix;
  std::string cpu_operations = "auto";  ///< HORA_CPU_OPERATIONS: auto or a backend: shm, tcp, mpi
  /// HORA_GPU_OPERATIONS: how tensors on GPUs move. nccl: with NCCL, or not at all; hierarchical: with NCCL
  /// within a host, and by way of the host's memory across; staged: by way of the host's memory, as
  /// HORA_CPU_OPERATIONS has it; auto: nccl where every rank has it and a GPU of its own, else staged. Rank
  /// 0's counts.
  std::string gpu_operations = "auto";
  /// HORA_NCCL_LIBRARY: the file of NCCL, where the process has loaded none; empty: then the first that is
  /// found.
  std::string nccl_library;
  /// The NCCL of Python's package nvidia.nccl, which PyTorch loads when it is imported; empty: unknown. NCCL
  /// is looked for there first. There is no variable: Python sets it.
  std::string packaged_nccl;
  /// NCCL_HOSTID, which is NCCL's: ranks that have different ones are on different hosts for it.
  std::string nccl_host_id;
  /// HORA_FLOAT32_SUMS: GPUs send 16-bit floats as such, but add them in float32 and round once. Else NCCL
  /// rounds at every addition. Rank 0's counts. (On CPUs sums are always so.)
  bool float32_sums = false;
  /// HORA_GPU_FUSION_THRESHOLD, bytes: the most that travels together between GPUs; 0: 32 MiB, unless
  /// HORA_AUTOTUNE chooses. Rank 0's counts.
  std::size_t gpu_fusion_threshold = 0;
  /// HORA_DETERMINISTIC: sums across hosts do not depend on what travels together with what; on one host they
  /// never do. Rank 0's counts.
  bool deterministic = false;
  /// HORA_TCP_STREAMS: sockets between two ranks, for data; 0: four between two hosts, shared among their
  /// ranks, and one within a host. Rank 0's counts.
  int tcp_streams = 0;
  /// HORA_FUSION_THRESHOLD, bytes: the most that travels together on the host; 0: 4 MiB, and across hosts as
  /// much more as a batch costs for itself, which the first steps of a training show. Rank 0's counts.
  std::size_t fusion_threshold = 0;
  /// HORA_AUTOTUNE: tries how much should travel together, in steps of a training, and keeps what made them
  /// fastest; thresholds that are set stay as they are. Rank 0's counts.
  bool autotune = false;
  /// HORA_AUTOTUNE_LOG: rank 0 writes the trials there, as CSV.
  std::string autotune_log;
  /// HORA_AUTOTUNE_STEPS: those of a trial that are measured.
  int autotune_steps = 10;
  /// HORA_ARENA_SIZE, bytes of address space per rank, from 16 MiB up; 0: the memory of the host.
  std::size_t arena_size = 0;
  /// HORA_PEER_MEMORY: whether ranks of a host reach into each other's private buffers (process_vm_readv),
  /// where that is permitted. 1: always; 0: never; auto, no value: where that is faster than by way of shared
  /// memory, which is tried from time to time. Rank 0's counts.
  std::optional<bool> peer_memory;
  /// HORA_STREAMING_STORES: whether copies into shared memory bypass the caches: 1, 0, or auto, no value:
  /// what is faster, which is tried from time to time.
  std::optional<bool> streaming_stores;
  /// HORA_LEVELS: which ranks of a host put floating-point elements together first, which is the order of
  /// sums. auto, no value: of more than 8, those that are bound (hrun --bind-to) to cores that share a cache,
  /// if each rank's do, and then those on a socket; large tensors of Hora's memory also move that way, if the
  /// first ones show it to be faster. 8,32: 8 ranks in a row, and then 32, also with large tensors. 0: none.
  /// Rank 0's counts.
  std::optional<std::vector<int>> levels;

  // Reports for an operator.
  /// HORA_STRAGGLER_STEPS: a line says, of so many steps of a training, for which rank the others waited
  /// most, if that was worth a tenth of the time; 0: never. Rank 0's counts.
  int straggler_steps = 20;
  /// HORA_RECORDED_OPERATIONS. How many of its last operations each rank remembers, to write them down when
  /// the job fails, or it is asked. 0: none.
  std::size_t recorded_operations = 2000;
  std::string timeline;               ///< HORA_TIMELINE: rank 0 writes a trace there; see start_timeline
  bool timeline_mark_cycles = false;  ///< HORA_TIMELINE_MARK_CYCLES
  std::string dump_directory;  ///< HORA_DUMP_DIR; empty: dumps/<job> in the user's private hora-UID in TMPDIR
  /// HORA_DUMP_SIGNAL: USR1 or USR2; a rank that gets this signal writes there what it has done and what it
  /// waits for, and goes on. The program's own handler of it runs, too. 0: none.
  int dump_signal = 0;
  std::string log_level = "warning";  ///< HORA_LOG_LEVEL: error, warning, info or debug

  /// The configuration that the environment of this process describes. The first call reads the pipe of the
  /// secret, and keeps the secret, so that a program may initialise again. Throws Error(invalid_argument)
  /// that names the variable, the value and what is accepted.
  [[nodiscard]] static Config from_environment();
  /// The settings of the environment for a job that no launcher describes: this process is rank `rank` of
  /// `size`. The ranks meet where rank 0 listens: `coordinator` and `secret` are the same on all of them. A
  /// job of one rank needs neither. Such values of the environment do not count. The places of the
  /// ranks on their hosts are found out when they meet. Rank 0 of a JobListener also sets `coordinator_fd`;
  /// else it listens at `coordinator`. Throws Error(invalid_argument) if there is no such rank, or several
  /// ranks have no coordinator or a secret of zeros, and as `from_environment`.
  [[nodiscard]] static Config with_place(int rank, int size, const std::string& coordinator,
                                         const Secret& secret);
  /// HORA_NCCL_LIBRARY alone, for a process that asks about NCCL without joining a job.
  [[nodiscard]] static std::string nccl_library_of_environment();

  /// Sentences about the variables of the environment that begin with HOROVOD_. One names those that count,
  /// because Hora's own is not set. One names those that mean nothing. A sentence about none is left out.
  [[nodiscard]] static std::vector<std::string> horovod_notes();

  /// Variables of the environment that begin with HORA_ and mean nothing: misspelt ones, as a rule.
  [[nodiscard]] static std::vector<std::string> unknown_variables();
};

}  // namespace hora
