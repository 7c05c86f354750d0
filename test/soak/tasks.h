// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/support/elements.h"

#include <hora/hora.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hora {

/// One operation of a soak, as all ranks know it: everything follows from the seed and its number. A value.
struct Task {
  std::uint64_t number = 0;
  Operation operation = Operation::allreduce;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  DType wire = DType::float32;
  std::size_t set = 0;    ///< its place in the list of process sets
  std::size_t rows = 0;   ///< of the first dimension, at most
  std::size_t width = 1;  ///< elements in a row
  std::size_t root = 0;   ///< its place in the process set
  bool grouped = false;   ///< together with the next one
  std::string name;
};
[[nodiscard]] Task task_of(std::uint64_t seed, std::uint64_t number, std::size_t sets);

/// A task on one rank: its memory, and what must come out.
class Work {
 public:
  /// `members`: the ranks of its process set, ascending; `rank`: ours, one of them.
  Work(Task task, std::vector<int> members, int rank);
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  [[nodiscard]] const Task& task() const { return task_; }
  /// The entry to submit. This object owns the memory. `process_set`: the set's number.
  [[nodiscard]] Entry entry(int process_set);
  /// The error in the output, after its end; empty: none.
  [[nodiscard]] std::string wrong() const;

 private:
  [[nodiscard]] int value(std::size_t place, std::size_t index) const;
  [[nodiscard]] std::size_t rows_of(std::size_t place) const;
  [[nodiscard]] std::size_t split(std::size_t from, std::size_t to) const;
  [[nodiscard]] double reduced(std::size_t places, std::size_t index) const;
  [[nodiscard]] std::optional<std::vector<double>> expected() const;
  [[nodiscard]] std::vector<double> expected_of_alltoall() const;
  [[nodiscard]] std::vector<double> rows_between(std::size_t place, std::size_t first,
                                                 std::size_t count) const;
  [[nodiscard]] std::vector<double> reduced_between(std::size_t places, std::size_t first,
                                                    std::size_t count) const;

  Task task_;
  std::vector<int> members_;
  std::size_t place_;
  Elements input_;
  Elements output_;
};

}  // namespace hora
