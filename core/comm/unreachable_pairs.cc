// SPDX-License-Identifier: Apache-2.0
#include "core/comm/unreachable_pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace hora {
namespace {

// A report is a head, rows that begin with kIndent, and the remedy; so that two reports can be put together,
// whichever ranks they come from.
constexpr const char* kHead = "ranks cannot reach each other over the network:";
constexpr const char* kRemedy =
    "every host must reach every other one on any TCP port: look at the firewall between them, or name the "
    "network that connects them by hrun --network (HORA_NETWORK)";
constexpr const char* kIndent = "  ";
constexpr const char* kMore = "  and more pairs";
constexpr std::size_t kMostRows = 24;

std::vector<std::string> rows_of(const std::string& text) {
  std::vector<std::string> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kIndent)) rows.push_back(std::move(line));
  }
  return rows;
}

Status report(std::vector<std::string> rows) {
  const bool more = std::erase(rows, kMore) > 0 || rows.size() > kMostRows;
  rows.resize(std::min(rows.size(), kMostRows));
  if (more) rows.emplace_back(kMore);
  return {Code::unavailable, fmt::format("{}\n{}\n{}", kHead, fmt::join(rows, "\n"), kRemedy)};
}

}  // namespace

Status describe_unreachable(std::span<const UnreachablePair> unreachable_pairs) {
  std::vector<std::string> rows;
  for (const auto& unreachable_pair : unreachable_pairs) {
    rows.push_back(fmt::format("{}{} on {} -> {} on {}: {}", kIndent,
                               describe_ranks({unreachable_pair.from.rank}), unreachable_pair.from.host,
                               describe_ranks({unreachable_pair.to.rank}), unreachable_pair.to.host,
                               fmt::join(unreachable_pair.failures, ", ")));
  }
  return report(std::move(rows));
}

bool names_unreachable(const Status& status) {
  return status.code == Code::unavailable && status.message.starts_with(kHead);
}

Status merge_unreachable(const Status& first, const Status& second) {
  auto rows = rows_of(first.message);
  for (auto& row : rows_of(second.message)) {
    if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(std::move(row));
  }
  return report(std::move(rows));
}

}  // namespace hora
