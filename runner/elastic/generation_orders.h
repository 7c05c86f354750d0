// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/elastic/message.h"
#include "core/elastic/process.h"
#include "runner/elastic/slots.h"
#include "runner/launch/placement.h"

#include <hora/config.h>

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hora::hrun {

/// The exit codes of an elastic job that its Leader has ended.
inline constexpr int kStateLost = 74;
inline constexpr int kPausedTooLong = 75;

/// The rules of an elastic job. A value.
struct GenerationPolicy {
  elastic::ElasticPolicy members;
  ReplacementPolicy replacement;
  int spares = 0;                              ///< --spares: processes beyond the members, which wait
  std::optional<std::uint64_t> reset_limit{};  ///< --reset-limit; nothing: its ranks may change without end
};

/// The facts that Generations asks for when it needs them. A value.
struct GenerationFacts {
  std::function<std::string(int rank)> process;                ///< "(pid 4711 on node7)"
  std::function<std::string(int host, int port)> coordinator;  ///< the addresses of a host, with this port
  std::function<Secret()> secret;                              ///< a new one at each call
};

/// The results of an event of an elastic job: the caller carries them out. A value.
struct GenerationOrders {
  struct Message {
    int rank = 0;
    elastic::LeaderMessage message;
  };
  struct Start {
    RankPlacement placement;
    elastic::MemberId member = 0;
  };
  struct End {
    int status = 0;  ///< the exit code for hrun; 0: that of the first rank that failed
    std::string why;
  };
  std::vector<Message> messages;     ///< to send
  std::vector<int> kills;            ///< ranks to kill
  std::vector<Start> starts;         ///< processes to start, for ranks that are there or as further ones
  std::vector<std::string> lines;    ///< to print, each a sentence without its full stop
  std::vector<std::string> details;  ///< to print with --verbose
  std::vector<int> joined;           ///< ranks whose processes have become members
  bool goes_on = false;              ///< of an end: the job goes on without this rank or host
  bool was_member = false;           ///< of an end: the job has lost a member, or one of the first processes
  bool formed = false;               ///< the members of a new generation are connected
  std::optional<End> end{};          ///< the job cannot go on

  /// Adds those of a further event. `goes_on` stays.
  void add(GenerationOrders more) {
    const auto append = [](auto& to, auto& from) {
      std::move(from.begin(), from.end(), std::back_inserter(to));
    };
    append(messages, more.messages);
    append(kills, more.kills);
    append(starts, more.starts);
    append(lines, more.lines);
    append(details, more.details);
    append(joined, more.joined);
    formed = formed || more.formed;
    if (!end) end = std::move(more.end);
  }
  /// The job cannot go on. `status`: see End.
  void end_job(const std::string& why, int status = 0) {
    end = {status, why};
    lines.push_back(fmt::format("the job cannot go on: {}", why));
  }
};

}  // namespace hora::hrun
