// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "runner/command_line/options.h"
#include "runner/elastic/discovery.h"
#include "runner/elastic/generations.h"
#include "runner/elastic/job_command.h"

#include <functional>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

struct pollfd;

namespace hora::hrun {

class JobHosts;
class JobRanks;

/// The hosts of an elastic job, which come and go: those of the start, those that the discovery script
/// prints, and those that the user drains. It knows their slots, and tells JobHosts, JobRanks and
/// Generations. Nothing blocks but the destructor, which waits for the name of a new host to be resolved. Not
/// thread-safe.
class ElasticHosts {
 public:
  /// `hosts`: those with ranks; the others of the start are added. Refers to its arguments.
  ElasticHosts(const Options& options, JobHosts& hosts, JobRanks& ranks);

  /// The slots of the hosts at the start, by their numbers in JobHosts.
  [[nodiscard]] std::vector<int> capacities() const;
  /// From here on they change. Refers to its argument.
  void begin(Generations& generations, TimePoint now);

  /// Adds what poll() has to wait for; and the time until when it may wait.
  void watch(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;
  /// A child of this process has ended.
  void child_changed(int pid, int wait_status);
  /// Does what can be done without waiting.
  [[nodiscard]] GenerationOrders turn(TimePoint now);
  /// The result of a command.
  struct Obeyed {
    GenerationOrders orders;
    std::string text;  ///< for the user
  };
  /// Carries a command out: the job is to have other ranks, or all processes are to leave a host, and none is
  /// started there any more. Throws Error(invalid_argument) or (unavailable) if the job cannot do so.
  [[nodiscard]] Obeyed obey(const JobCommand& command, TimePoint now);

 private:
  struct Host {
    std::string name;
    int capacity = 0;
    bool is_here = false;
    bool drained = false;
  };
  /// A list that the script has printed, while the names that are new in it are resolved.
  struct NewList {
    std::vector<HostSlots> hosts;
    std::vector<std::string> names;
    std::future<std::vector<bool>> are_here;
  };
  [[nodiscard]] GenerationOrders drain(const std::string& host, TimePoint now);
  [[nodiscard]] Host* find(const std::string& name);
  [[nodiscard]] int number_of(const Host& host) const { return static_cast<int>(&host - hosts_.data()); }
  [[nodiscard]] bool goes_on_elsewhere(const std::function<bool(const Host&)>& is_kept) const;
  [[nodiscard]] bool keeps_a_member(const std::vector<HostSlots>& listed) const;
  void add(const HostSlots& slots, bool is_here);
  void read(DiscoveryRun run, TimePoint now, GenerationOrders& orders);
  void take(const NewList& list, const std::vector<bool>& are_here, TimePoint now, GenerationOrders& orders);
  void set_capacity(Host& host, int slots, TimePoint now, GenerationOrders& orders);

  const Options& options_;
  JobHosts& job_hosts_;
  JobRanks& ranks_;
  Generations* generations_ = nullptr;  // null: the job has not begun
  std::optional<Discovery> discovery_;
  std::optional<NewList> new_list_;
  std::vector<Host> hosts_;  // by their numbers in JobHosts
  std::set<std::string> refused_;
  std::string said_;  // what was wrong with the last run of the script
};

}  // namespace hora::hrun
