// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hora::hrun {

/// An operation as a rank has written it down (core/watch/recorder.h). A value.
struct DumpedOperation {
  std::string name;
  std::string operation;
  std::string dtype;
  std::vector<std::int64_t> shape;
  int process_set = 0;
  double submitted = 0;        ///< seconds before the dump
  std::uint64_t sequence = 0;  ///< of the rank's finished operations; 0: it has not finished
  std::string status;          ///< "ok", "aborted", ...; empty: it has not finished
};

/// A message that was under way. A value.
struct DumpedMessage {
  std::string kind;  ///< "send" or "receive"
  int peer = 0;      ///< -1: any
  int tag = 0;       ///< -1: any
  std::string what;
  std::uint64_t bytes = 0;
  double started = 0;  ///< seconds before the dump
};

/// The dump that one rank has written. A value.
struct RankDump {
  std::string job;
  int rank = 0;
  int size = 1;
  int pid = 0;
  std::string host;
  std::string status;   ///< "ok": it was asked, and goes on; else how the job failed
  std::string message;  ///< why
  std::vector<DumpedOperation> pending;
  std::vector<DumpedMessage> messages;
  std::vector<DumpedOperation> finished;  ///< the last ones, the oldest first
};

/// Reads the text of a dump. Throws Error(invalid_argument) that says what is wrong with it.
[[nodiscard]] RankDump parse_dump(std::string_view text);

/// Reads all `rank<k>.json` of a directory, by rank. Throws Error(invalid_argument) that names the file and
/// what is wrong with it: one that is no dump, of another job than the first, or that says it is another
/// rank's; and where there is none.
[[nodiscard]] std::vector<RankDump> read_dumps(const std::string& directory);

}  // namespace hora::hrun
