// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace hora {

/// The process sets that exist: ranks, ascending, by number. The engine adds and removes sets, in the same
/// order on every rank, so that numbers are the same; user threads look. Thread-safe.
class ProcessSets {
 public:
  /// Begins with all ranks of the job, as number 0.
  explicit ProcessSets(int size);

  [[nodiscard]] std::map<int, std::vector<int>> all() const;
  [[nodiscard]] std::optional<std::vector<int>> ranks_of(int number) const;
  [[nodiscard]] std::optional<int> number_of(const std::vector<int>& ranks) const;

  /// The number that the next set gets; none is given twice. Engine only.
  [[nodiscard]] int next() const;
  /// Returns the set's number.
  int add(std::vector<int> ranks);
  void remove(int number);

 private:
  mutable std::mutex mutex_;
  std::map<int, std::vector<int>> sets_;
  int next_ = 1;
};

}  // namespace hora
