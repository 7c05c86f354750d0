// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/hora.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace hora {

// Texts of errors: "process set 3 does not exist, ...", "there is one of these ranks already, number 3".
[[nodiscard]] std::string no_such_set(int number);
[[nodiscard]] std::string there_is_one(const ProcessSet& set, int number);

/// The process sets that exist, by number. The engine adds and removes sets, in the same order on every rank,
/// so that numbers are the same; user threads look. A user thread also removes a set that has a name, here
/// alone. Every rank knows all sets, also those of other ranks. No two sets without a name are equal.
/// Thread-safe.
class ProcessSets {
 public:
  /// Begins with all ranks of the job, as number 0.
  explicit ProcessSets(int size);

  /// The number of ranks in the job.
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] std::map<int, ProcessSet> all() const;
  [[nodiscard]] std::optional<ProcessSet> find(int number) const;
  [[nodiscard]] std::optional<std::vector<int>> ranks_of(int number) const;
  [[nodiscard]] std::optional<int> number_of(const ProcessSet& set) const;

  /// The number that the next set gets; none is given twice. Engine only.
  [[nodiscard]] int next() const;
  /// Returns the set's number.
  int add(ProcessSet set);
  void remove(int number);

 private:
  const int size_;
  mutable std::mutex mutex_;
  std::map<int, ProcessSet> sets_;
  int next_ = 1;
};

}  // namespace hora
