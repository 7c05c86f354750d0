// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/command_line/options.h"
#include "runner/launch/process.h"
#include "runner/observe/summary.h"

#include <string>
#include <string_view>

namespace hora::hrun {

class Relay;

/// The lines that hrun itself writes about its job, on stderr, and the names that it gives to ranks and hosts
/// in them. Refers to its arguments. Not thread-safe.
class JobLog {
 public:
  JobLog(const Options& options, const JobSummary& summary, Relay& relay)
      : options_(options), summary_(summary), relay_(relay) {}

  /// Writes the text as it is; an empty one changes nothing.
  void print(std::string_view text);
  /// Writes "hrun: <what>" and an end of line, with --verbose only.
  void say(std::string_view what);

  /// Writes "hrun: rank 1 (pid 4711) <what>".
  void print_of(int rank, std::string_view what);
  /// Writes "hrun: " and `describe_loss`.
  void print_loss(int host, const Ending& why);

  /// "rank 1 (pid 4711)", or "rank 1 (pid 4711 on b)" where there is more than one host.
  [[nodiscard]] std::string name(int rank) const;
  /// "(pid 4711)", or "(pid 4711 on b)" where there is more than one host.
  [[nodiscard]] std::string process(int rank) const;
  /// " on b" where there is more than one host, else nothing. `host` is an index.
  [[nodiscard]] std::string on(int host) const;
  /// The same of the host of a rank.
  [[nodiscard]] std::string on_host_of(int rank) const;
  /// "host b is lost, and with it ranks 2 to 3: ...". `host` is an index.
  [[nodiscard]] std::string describe_loss(int host, const Ending& why) const;

 private:
  const Options& options_;
  const JobSummary& summary_;
  Relay& relay_;
};

}  // namespace hora::hrun
