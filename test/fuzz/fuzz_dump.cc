// SPDX-License-Identifier: Apache-2.0
// Dump files of a rank: read and compared, or refused by an Error.
#include "runner/observe/analysis.h"
#include "runner/observe/dump_file.h"

#include <hora/status.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr int kMostRanksInATable = 64;
  try {
    hora::hrun::RankDump dump = hora::hrun::parse_dump({reinterpret_cast<const char*>(data), size});
    if (dump.rank < 0 || dump.rank >= dump.size) std::abort();
    if (dump.size > kMostRanksInATable) return 0;
    if (hora::hrun::analyze({dump}).empty()) std::abort();
    if (dump.rank + 1 == dump.size) return 0;
    hora::hrun::RankDump other = dump;
    ++other.rank;
    if (!other.pending.empty()) other.pending.pop_back();
    if (hora::hrun::analyze({dump, other}).empty()) std::abort();
  } catch (const hora::Error&) {
    return 0;
  }
  return 0;
}
