// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/bench/measure.h"

#include <string>
#include <vector>

namespace hora::bench {

/// Writes rows as they come: nccl-tests' columns, once for each contender, and ratios of those that can be
/// compared.
class Table {
 public:
  Table(const Options& options, std::vector<std::string> names, int ranks);

  void print_header() const;
  void print(const Row& row);
  /// All rows so far. Throws Error(unavailable) if the file cannot be written.
  void write_json(const std::string& file) const;
  /// Elements that were wrong, in all rows.
  [[nodiscard]] std::size_t wrong() const;

 private:
  [[nodiscard]] double algbw(const Row& row, const Figure& figure) const;
  [[nodiscard]] double busbw(const Row& row, const Figure& figure) const;
  [[nodiscard]] const Figure* figure(const Row& row, const std::string& name) const;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> compared() const;

  Options options_;
  std::vector<std::string> names_;
  int ranks_;
  std::vector<Row> rows_;
};

}  // namespace hora::bench
