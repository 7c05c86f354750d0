// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/launcher/news.h"
#include "core/launcher/question.h"
#include "runner/command_line/options.h"
#include "runner/launch/generations.h"
#include "runner/launch/host_ranks.h"
#include "runner/launch/plan.h"
#include "runner/launch/what_next.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

struct pollfd;

namespace hora::hrun {

class StandardInput;

/// A host and its ranks.
struct JobHost {
  std::string name;
  std::string known_as;  ///< the name by which other hosts may know it; empty: nobody else has to
  int first = 0;         ///< of its ranks
  int count = 0;
  std::unique_ptr<HostRanks> ranks;

  /// The outputs of the process that was started last as this rank of the job.
  [[nodiscard]] std::shared_ptr<OutputSource> output(int rank) const { return ranks->output(rank - first); }
  [[nodiscard]] std::shared_ptr<OutputSource> errors(int rank) const { return ranks->errors(rank - first); }
};

/// 32 random bytes. Throws Error(unavailable) if the system has no random numbers.
[[nodiscard]] Secret new_secret();

/// The plan of a job: all that its hosts have in common, with a new secret. Throws Error(unavailable) if the
/// system has no random numbers.
[[nodiscard]] HostPlan plan_of(const Options& options);

/// The hosts of a job. They do the same things together. Nothing blocks but the destructor, which waits a
/// moment until nothing of the job is left on other hosts. Not thread-safe.
class JobHosts {
 public:
  JobHosts() = default;
  /// All hosts are told before the wait for any of them.
  ~JobHosts();
  JobHosts(const JobHosts&) = delete;
  JobHosts& operator=(const JobHosts&) = delete;

  /// Lets all hosts make ready, each with its share of the ranks. Throws Error(unavailable) if a program
  /// cannot be started here.
  void prepare(const HostPlan& plan, const Options& options, StandardInput& input);
  /// Whether all hosts are ready. Throws Error(unavailable) that names all that cannot be, once that is
  /// known.
  [[nodiscard]] bool all_ready() const;
  /// Starts all ranks, once all hosts are ready. Throws Error(unavailable).
  void start();
  /// Whether a process of the job may be running.
  [[nodiscard]] bool anybody_left() const;

  /// Sends it to all processes of the job; none: nothing is sent.
  void send(EndSignal signal);
  /// Tells all ranks how one has ended.
  void tell(const RankEnd& end);
  /// Asks all ranks. Before there are hosts nobody is asked.
  void ask(const Question& question);

  /// Sends the messages to ranks of an elastic job, kills ranks, and starts others.
  void carry_out(const GenerationOrders& orders);
  /// The addresses of a host, once it is ready, with this port: "address:port,[address]:port".
  [[nodiscard]] std::string coordinator(int host, int port) const;

  /// Adds what poll() has to wait for; and the time until when it may wait.
  void watch(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;
  /// A child of this process has ended, was stopped, or goes on.
  void child_changed(int pid, int wait_status, TimePoint now);

  [[nodiscard]] int size() const { return static_cast<int>(hosts_.size()); }
  [[nodiscard]] JobHost& at(int host) { return hosts_[static_cast<std::size_t>(host)]; }

 private:
  [[nodiscard]] int count(HostRanks::State state) const;
  [[nodiscard]] const JobHost& host_of(int rank) const;

  std::vector<JobHost> hosts_;
};

}  // namespace hora::hrun
