// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/folder.h"
#include "core/comm/world.h"
#include "core/watch/message_wait.h"

#include <hora/hora.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace hora {

/// One operation's four instants. A value.
struct Record {
  std::string name;
  Operation operation = Operation::allreduce;
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
  TimePoint submitted;
  TimePoint decided;  ///< all ranks have asked for it
  TimePoint started;  ///< its batch begins to move
  TimePoint finished;
  Code code = Code::ok;
  int process_set = 0;
  std::uint64_t sequence = 0;  ///< of this rank's finished operations, from 1; 0: it has not finished
};

/// The last operations of this rank, kept in a ring, to be written down when the run fails. Thread-safe.
class Recorder {
 public:
  /// `capacity` 0: it keeps none.
  explicit Recorder(std::size_t capacity) : capacity_(capacity) {}

  [[nodiscard]] bool on() const { return capacity_ > 0; }

  /// Numbers it.
  void add(Record record);
  /// The one that was added last.
  [[nodiscard]] std::optional<Record> last() const;
  /// Of the tensors that went into all that were added.
  [[nodiscard]] std::uint64_t bytes() const;
  /// Those that are kept, the oldest first.
  [[nodiscard]] std::vector<Record> records() const;

 private:
  std::size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<Record> ring_;  // under the mutex, as all below
  std::size_t next_ = 0;
  std::uint64_t added_ = 0;
  std::uint64_t bytes_ = 0;
};

/// The state of a rank when its run failed, or it was asked: its identity, the reason, its finished
/// operations, and the ones still waiting.
struct Dump {
  std::string job;
  Member member;
  int size = 1;
  Status why;
  std::vector<Record> records;        ///< finished operations, the oldest first
  std::vector<Record> pending;        ///< submitted and not finished; of the instants only `submitted` counts
  std::vector<MessageWait> messages;  ///< under way
  TimePoint now;
};

/// The dump as one JSON object; instants are seconds before `now`.
[[nodiscard]] std::string to_json(const Dump& dump);

/// Where a job's dumps lie if the user has not named a directory: `dumps/<job>` in this user's private folder
/// in the temporary directory. Those of the ten jobs that wrote last stay, older ones are removed.
/// Throws Error(unavailable).
[[nodiscard]] Folder folder_of_job(const std::string& temporary, const std::string& job);

/// Writes `rank<k>.json` (mode 0600), whole or not at all, in place of an earlier one, and returns its path.
/// Throws Error(unavailable) with the path and the system's reason.
std::string write_dump(const Dump& dump, const Folder& folder);

}  // namespace hora
