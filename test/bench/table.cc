// SPDX-License-Identifier: Apache-2.0
#include "test/bench/table.h"

#include "core/device/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace hora::bench {
namespace {

const char* name_of(Level level) {
  switch (level) {
    case Level::plane: return "plane";
    case Level::hosts: return "hosts";
    default: return "runtime";
  }
}

}  // namespace

Table::Table(const Options& options, std::vector<std::string> names, int ranks)
    : options_(options), names_(std::move(names)), ranks_(ranks) {}

double Table::algbw(const Row& row, const Figure& figure) const {
  return static_cast<double>(row.bytes) / figure.seconds / 1e9;
}

double Table::busbw(const Row& row, const Figure& figure) const {
  return algbw(row, figure) * 2.0 * (ranks_ - 1) / ranks_;
}

const Figure* Table::figure(const Row& row, const std::string& name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found == names_.end() ? nullptr : &row.figures[static_cast<std::size_t>(found - names_.begin())];
}

/// Pairs (a, b) for which "how many times as fast as b is a" is worth a column.
std::vector<std::pair<std::string, std::string>> Table::compared() const {
  const auto has = [&](const char* name) {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  };
  std::vector<std::pair<std::string, std::string>> pairs;
  if (has("arena") && has("limit")) pairs.emplace_back("arena", "limit");
  if (has("arena") && has("mpi")) pairs.emplace_back("arena", "mpi");
  if (has("hora/mpi") && has("mpi")) pairs.emplace_back("hora/mpi", "mpi");
  if (has("private") && has("mpi")) pairs.emplace_back("private", "mpi");
  for (const char* other : {"raw", "mpi"}) {
    if (has("hora") && has(other)) pairs.emplace_back("hora", other);
  }
  if (has("half") && has("hora")) pairs.emplace_back("half", "hora");
  return pairs;
}

void Table::print_header() const {
  fmt::print("# hora_bench allreduce: {} ranks, {} level, kernels for {}\n", ranks_, name_of(options_.level),
             kernels::target());
  fmt::print("# time: {}, median over all iterations of {} blocks in which the columns take turns\n",
             options_.level == Level::hosts ? "of the slowest rank"
                                            : "from the last rank's begin to the last one's end",
             options_.blocks);
  if (figure(Row{0, 0, std::vector<Figure>(names_.size())}, "limit") != nullptr) {
    fmt::print("# limit: the same kernel over the same memory without any synchronisation\n");
  }
  fmt::print("#{:>11}{:>12}{:>9}{:>7}", "", "", "", "");
  for (const auto& name : names_) fmt::print(" | {:^34}", name);
  fmt::print("\n#{:>11}{:>12}{:>9}{:>7}", "size", "count", "type", "redop");
  for (std::size_t i = 0; i < names_.size(); ++i) {
    fmt::print(" | {:>10}{:>9}{:>9}{:>6}", "time", "algbw", "busbw", "#wrong");
  }
  for (const auto& [a, b] : compared()) fmt::print(" | {:>11}", a + "/" + b);
  fmt::print("\n#{:>11}{:>12}{:>9}{:>7}", "(B)", "(elements)", "", "");
  for (std::size_t i = 0; i < names_.size(); ++i) {
    fmt::print(" | {:>10}{:>9}{:>9}{:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void Table::print(const Row& row) {
  rows_.push_back(row);
  fmt::print("{:>12}{:>12}{:>9}{:>7}", row.bytes, row.count, name(options_.dtype), name(options_.op));
  for (const auto& one : row.figures) {
    fmt::print(" | {:>10.2f}{:>9.3f}{:>9.3f}{:>6}", one.seconds * 1e6, algbw(row, one), busbw(row, one),
               one.wrong);
  }
  for (const auto& [a, b] : compared())
    fmt::print(" | {:>11.2f}", figure(row, b)->seconds / figure(row, a)->seconds);
  fmt::print("\n");
  std::fflush(stdout);
}

void Table::write_json(const std::string& file) const {
  std::ofstream out(file);
  out << fmt::format(
      "{{\"operation\": \"allreduce\", \"ranks\": {}, \"dtype\": \"{}\", \"op\": \"{}\", \"rows\": [", ranks_,
      name(options_.dtype), name(options_.op));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    out << fmt::format("{}\n  {{\"bytes\": {}, \"count\": {}", i == 0 ? "" : ",", row.bytes, row.count);
    for (std::size_t k = 0; k < names_.size(); ++k) {
      const Figure& one = row.figures[k];
      out << fmt::format(
          ", \"{}\": {{\"us\": {:.3f}, \"least_us\": {:.3f}, \"most_us\": {:.3f}, \"p99_us\": {:.3f}, "
          "\"longest_us\": {:.3f}, \"algbw\": {:.4f}, "
          "\"busbw\": {:.4f}, \"wrong\": {}}}",
          names_[k], one.seconds * 1e6, one.least * 1e6, one.most * 1e6, one.p99 * 1e6, one.longest * 1e6,
          algbw(row, one), busbw(row, one), one.wrong);
    }
    out << "}";
  }
  out << "\n]}\n";
  if (!out.flush()) throw Error(Code::unavailable, fmt::format("cannot write {}", file));
}

std::size_t Table::wrong() const {
  std::size_t wrong = 0;
  for (const auto& row : rows_) {
    for (const auto& one : row.figures) wrong += one.wrong;
  }
  return wrong;
}

}  // namespace hora::bench
