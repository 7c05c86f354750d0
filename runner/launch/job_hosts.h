// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/launcher/news.h"
#include "core/launcher/question.h"
#include "runner/command_line/options.h"
#include "runner/elastic/generations.h"
#include "runner/launch/host_ranks.h"
#include "runner/launch/plan.h"
#include "runner/launch/what_next.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct pollfd;

namespace hora::hrun {

class StandardInput;

/// A host and its ranks.
struct JobHost {
  std::string name;
  std::optional<RemoteHost> way;     ///< to its agent; nothing: it is this machine
  std::string known_as;              ///< the name by which other hosts may know it; empty: nobody else has to
  int slots = 0;                     ///< how many ranks it may have
  std::vector<int> numbers;          ///< of its ranks in the job, by index
  std::unique_ptr<HostRanks> ranks;  ///< null: it has had none
  bool connecting = false;           ///< in an elastic job that has begun
  bool lost = false;
  /// A rank that waits for the connection.
  struct Waiting {
    GenerationOrders::Start start;
    bool is_unwanted = false;  ///< it is to be killed
  };
  std::vector<Waiting> waiting;
  std::string trouble;  ///< why there is none

  [[nodiscard]] bool is_connected() const { return ranks && !connecting && !lost; }
  [[nodiscard]] bool is_to_be_connected() const { return !waiting.empty() && !connecting && !is_connected(); }
  /// A rank that waits is to be killed.
  void do_not_want(int rank) {
    for (auto& one : waiting) one.is_unwanted = one.is_unwanted || one.start.placement.rank == rank;
  }
  /// That of a rank it does not have is the number of ranks.
  [[nodiscard]] int index_of(int rank) const {
    return static_cast<int>(std::find(numbers.begin(), numbers.end(), rank) - numbers.begin());
  }
  /// The outputs of the process that was started last as this rank of the job.
  [[nodiscard]] std::shared_ptr<OutputSource> output(int rank) const { return ranks->output(index_of(rank)); }
  [[nodiscard]] std::shared_ptr<OutputSource> errors(int rank) const { return ranks->errors(index_of(rank)); }
};

/// The plan of a job: all that its hosts have in common, with a new secret. Throws Error(unavailable) if the
/// system has no random numbers.
[[nodiscard]] HostPlan plan_of(const Options& options);

/// The hosts of a job. They do the same things together. A host of an elastic job that has no rank at the
/// start is connected when it gets its first one, and one that was lost likewise. Nothing blocks but the
/// destructor, which waits a moment until nothing of the job is left on other hosts. Not thread-safe.
class JobHosts {
 public:
  JobHosts() = default;
  /// All hosts are told before the wait for any of them.
  ~JobHosts();
  JobHosts(const JobHosts&) = delete;
  JobHosts& operator=(const JobHosts&) = delete;

  /// Lets all hosts that have ranks make ready, each with its share of them. Throws Error(unavailable) if a
  /// program cannot be started here. Refers to its arguments.
  void prepare(const HostPlan& plan, const Options& options, StandardInput& input);
  /// Adds a host that has no ranks. `way`, `slots`: see JobHost.
  void add(const std::string& name, std::optional<RemoteHost> way, int slots);
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

  /// The host is lost, and what waits for a connection is not started.
  void forget_waiting(int host) { at(host).waiting.clear(); }
  /// Sends the messages to ranks of an elastic job, kills ranks, and starts others.
  void carry_out(const GenerationOrders& orders);
  /// The addresses of a host, once it is ready, with this port: "address:port,[address]:port".
  [[nodiscard]] std::string coordinator(int host, int port) const;

  /// Does what can be done on a host without waiting. Returns the events since the last call, in order. One
  /// that cannot be connected is lost, as far as events tell.
  std::vector<RankEvent> turn(int host, TimePoint now);

  /// Adds what poll() has to wait for; and the time until when it may wait.
  void watch(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;
  /// A child of this process has ended, was stopped, or goes on.
  void child_changed(int pid, int wait_status, TimePoint now);

  [[nodiscard]] int size() const { return static_cast<int>(hosts_.size()); }
  [[nodiscard]] JobHost& at(int host) { return hosts_[static_cast<std::size_t>(host)]; }

 private:
  [[nodiscard]] int count(HostRanks::State state) const;
  /// Null: none, or not any more.
  [[nodiscard]] JobHost* host_of(int rank);
  [[nodiscard]] std::unique_ptr<HostRanks> make(const JobHost& host, std::vector<RankPlacement> placements,
                                                int slots) const;
  static void start_here(JobHost& host, const GenerationOrders::Start& start);
  void connect(JobHost& host);

  HostPlan plan_;
  const Options* options_ = nullptr;
  StandardInput* input_ = nullptr;
  RendezvousPoint rendezvous_;
  std::vector<JobHost> hosts_;
};

}  // namespace hora::hrun
