// SPDX-License-Identifier: Apache-2.0
#include "core/elastic/resolve.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace hora::elastic {

Bytes encode(const Report& report) {
  Writer out;
  out.u64(report.member).u64(report.generation).u64(report.voted).u64(report.committed);
  for (const bool yes : {report.has_state, report.leaving, report.takes_in}) out.u8(yes ? 1 : 0);
  out.u64(report.unreachable.size());
  for (const MemberId each : report.unreachable) out.u64(each);
  return out.take();
}

Report decode_report(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Report report;
  report.member = in.u64();
  report.generation = in.u64();
  report.voted = in.u64();
  report.committed = in.u64();
  report.has_state = in.boolean();
  report.leaving = in.boolean();
  report.takes_in = in.boolean();
  const std::size_t count = in.count(1, "members");
  for (std::size_t i = 0; i < count; ++i) report.unreachable.push_back(in.u64());
  in.finish();
  if (report.committed > report.voted || report.voted - report.committed > 1) {
    throw Error(Code::internal, fmt::format("a report tells of a vote for step {} after step {}",
                                            report.voted, report.committed));
  }
  return report;
}

std::uint64_t resolve(std::span<const Report> reports) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t most = 0;
  for (const auto& each : reports) {
    if (!each.has_state) continue;
    least = std::min(least, each.voted);
    most = std::max(most, each.voted);
  }
  if (least > most) throw Error(Code::internal, "no member that goes on has the state");
  if (most - least > 1) {
    throw Error(Code::internal,
                fmt::format("members have voted for steps {} and {}, which is too far apart", least, most));
  }
  return least;
}

}  // namespace hora::elastic
