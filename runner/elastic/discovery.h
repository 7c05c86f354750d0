// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "runner/launch/hosts.h"
#include "runner/launch/process.h"
#include "runner/streams/source.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct pollfd;

namespace hora::hrun {

/// The flags --host-discovery-script and --slots-per-host. A value.
struct DiscoveryPlan {
  std::string script;  ///< a command of sh that prints the hosts, see parse_host_lines
  int slots = 1;       ///< of a host that is printed without a number
};

/// The result of a run of the script. A value.
struct DiscoveryRun {
  std::vector<HostSlots> hosts;
  std::string
      trouble;  ///< "the host discovery script ./hosts exited with code 1: no such cluster"; empty: none
};

/// The script that lists the hosts of an elastic job. It runs again one second after it has ended. A run that
/// lasts for 30 s is ended. Nothing blocks. Not thread-safe.
class Discovery {
 public:
  /// The first run begins at `begin`.
  Discovery(DiscoveryPlan plan, TimePoint begin) : plan_(std::move(plan)), next_run_(begin) {}
  ~Discovery();
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

  /// Adds what poll() has to wait for; and the time until when it may wait.
  void watch(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;
  /// A child of this process has ended.
  void child_changed(int pid, int wait_status);
  /// Does what can be done without waiting. Returns the result of a run that has ended.
  [[nodiscard]] std::optional<DiscoveryRun> turn(TimePoint now);

 private:
  /// A run that has not ended.
  struct Run {
    int pid;
    PipeSource output;
    PipeSource errors;
    TimePoint deadline;
    std::string text{};
    std::string words{};  ///< that it wrote to stderr
    std::optional<Ending> ending{};
    bool too_slow = false;
    bool too_long = false;
  };
  void begin(TimePoint now);
  [[nodiscard]] DiscoveryRun result(const Run& run) const;

  const DiscoveryPlan plan_;
  TimePoint next_run_;
  std::optional<Run> run_;
};

/// The hosts at the start of a job: runs the script until they have `least` slots. `say` gets a line when
/// that lasts, at most once for each reason. Throws Error(invalid_argument) if the first run fails, and
/// Error(timeout) if there are too few slots after `timeout`.
[[nodiscard]] std::vector<HostSlots> discover_hosts(const DiscoveryPlan& plan, int least,
                                                    std::chrono::milliseconds timeout,
                                                    const std::function<void(const std::string&)>& say);

}  // namespace hora::hrun
