// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/elastic/leader.h"
#include "core/elastic/member.h"
#include "core/elastic/message.h"
#include "test/simulation/elastic/plan.h"
#include "test/simulation/network.h"

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hora::elastic {

/// An elastic job: hrun with its Leader, and processes with their Members, in one thread on a virtual clock.
/// A training step is a sum of shares to which all members contribute, votes, and a decision. The same plan
/// always takes the same course.
///
/// After every event that could break one, these must hold:
///  1. There is one record of a generation.
///  2. The steps that a process makes follow each other without a gap.
///  3. All processes make a step with equal results, in one generation or by the record of the next one.
///  4. Each step has each sample of its range once.
///  5. A record counts all steps that anybody has made, as long as anybody has the state.
///  6. Nobody runs in a generation on a host where another one begins.
///  7. The job ends, or pauses with too few members, within a minute after the last fault.
///  8. Steps are made again at most once for each fault; planned changes repeat none.
///  9. A generation has no more than max members, and pauses if and only if it has fewer than min.
/// 10. A process without the state gives it to nobody, and votes only while it gets the state in parts.
/// 11. No member is killed that neither stood still nor was cut off.
/// 12. A member of a generation that has ended makes no further step of it.
class ElasticJob {
 public:
  explicit ElasticJob(const ElasticPlan& plan);
  /// Lets everything happen. Empty if all went as it must; else what did not.
  std::string run();
  /// The events of the run, a line each.
  [[nodiscard]] const std::vector<std::string>& history() const { return history_; }
  [[nodiscard]] std::uint64_t generations() const { return leader_.record().generation; }
  /// Steps that were made again.
  [[nodiscard]] int repeated() const { return static_cast<int>(repeated_.size()); }
  [[nodiscard]] bool paused_for_ever() const { return paused_; }

 private:
  struct Process {
    Process(const MemberInfo& given) : info(given), machine(given.id) {}
    MemberInfo info;
    Member machine;
    bool alive = true;
    bool frozen = false;
    std::vector<std::function<void()>> waiting;  // events, while it is frozen
    bool leaves = false;
    bool has_state = false;
    int parts = 0;  // of the state, which come in steps that count before the last part does
    std::uint64_t committed = 0;
    std::uint64_t voted = 0;
    std::uint64_t state = 0;    // a hash of all steps
    std::uint64_t reduced = 0;  // the last step whose sum it holds
    std::vector<int> sum;       // of that step: the samples in it
    bool engine = false;        // runs, in `generation`
    std::uint64_t generation = 0;
    std::uint64_t contributed = 0;                      // the last step
    bool change_planned = false;                        // rank 0
    std::set<MemberId> unconnected;                     // while it forms
    std::map<std::uint64_t, std::set<MemberId>> votes;  // by step
    bool change_with_vote = false;                      // rank 0's vote announced a change
  };
  using Time = Clock::duration;

  // hrun
  void start_process(int host, int slot, Time after);
  void lead(const Leader::Actions& actions);
  void plan_tick();
  void send(const LeaderAction& action);
  void send(const Process& from, const MemberMessage& message);
  void hear(Process& process, const LeaderMessage& message);
  void to_leader(const Process& from, std::function<Leader::Actions()> what);
  // processes
  void on(MemberId id, Time after, std::function<void(Process&)> what);
  void beat(Process& process);
  void act(Process& process, const Member::Actions& actions);
  void stop_engine(Process& process);
  void form(Process& process);
  void connect(Process& process);
  void begin_step(Process& process);
  void contribute(Process& process, std::uint64_t step);
  void vote_if_ready(Process& process);
  void hear_vote(Process& process, std::uint64_t generation, std::uint64_t step, MemberId from, bool changes);
  void decide(Process& process, std::uint64_t generation, std::uint64_t step, bool changes);
  void make_step(Process& process, std::uint64_t step);
  void follow_step(Process& process, std::uint64_t step);
  void copy_state(Process& process);
  void take_state(Process& process);
  void end_process(Process& process, bool well);
  // faults
  void strike(const PlannedEvent& event, Process* who);
  void resize(int most);
  void reach(Process& process, Moment moment);
  void kill(Process& process);
  void freeze(Process& process, const PlannedEvent& event);
  void cut(int one, int other);
  void lose_host(int host);
  void notice_loss(MemberId lost, Time most);
  // what is
  [[nodiscard]] std::vector<MemberId> alive() const;
  [[nodiscard]] bool connected(int host, int other) const;
  [[nodiscard]] bool reachable(int host) const { return !lost_hosts_.contains(host); }
  [[nodiscard]] const GenerationRecord& record_of(const Process& process) const;
  [[nodiscard]] static int parts_of(const MemberInfo& member, const GenerationRecord& record);
  [[nodiscard]] std::vector<int> share(const Process& process, std::uint64_t step) const;
  [[nodiscard]] Time up_to(std::chrono::microseconds most);
  [[nodiscard]] bool has(Bug bug) const { return plan_.bug == bug; }
  void check_record(const GenerationRecord& record);
  void note(const std::string& what);
  void fail(const std::string& what);
  [[nodiscard]] std::string verdict();

  ElasticPlan plan_;
  std::mt19937_64 random_;
  Events events_;
  TimePoint begin_ = events_.now();
  Leader leader_;
  int most_;  // members that the job is to have
  TimePoint tick_ = TimePoint::max();
  std::map<MemberId, std::unique_ptr<Process>> processes_;
  MemberId last_id_ = 0;
  int starting_ = 0;  // processes that will come
  std::set<std::pair<int, int>> cuts_;
  std::set<int> lost_hosts_;
  std::vector<PlannedEvent> armed_;  // for a moment
  TimePoint calm_since_ = begin_;    // the last fault
  std::map<std::uint64_t, GenerationRecord> records_;
  std::set<std::pair<std::uint64_t, MemberId>> closed_;  // who took nobody in, at the end of which generation
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>>
      steps_;  // state and generation of each step
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::map<MemberId, std::vector<int>>> shares_;
  std::map<std::pair<int, MemberId>, TimePoint> last_;  // arrival: 0 at a process, 1 from it
  std::set<std::uint64_t> repeated_;  // generations at whose end a step was begun and not counted
  std::set<MemberId> harmed_;         // processes that stood still or were cut off
  int faults_ = 0;
  bool paused_ = false;
  bool over_ = false;
  std::string broken_;
  std::vector<std::string> history_;
};

}  // namespace hora::elastic
