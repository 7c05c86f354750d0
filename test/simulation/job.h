// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/negotiator.h"
#include "core/watch/stalls.h"
#include "test/simulation/network.h"

#include <deque>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace hora {

/// The fault in a simulated job.
enum class Fault {
  none,
  slow,         ///< a rank is a second late in every step
  death,        ///< a rank's process ends: noticed within 20 ms
  silence,      ///< a rank is stopped: noticed after five seconds
  shape,        ///< a rank submits another shape, once
  skip,         ///< a rank leaves out a tensor, and goes on
  stand_still,  ///< a rank leaves out all from some tensor on, and lives
  busy,         ///< a rank is busy for long, and has said so
};
inline constexpr int kFaults = 8;
[[nodiscard]] const char* name(Fault fault);

/// A training with its ranks, made of a seed. A value.
struct Plan {
  std::uint64_t seed = 0;
  int ranks = 2;
  int steps = 1;
  int tensors = 1;
  int unnamed = 0;              ///< so many of them are operations without a name
  std::size_t capacity = 8192;  ///< of schedules
  int radix = 0;                ///< of the tree; 0: a star
  bool shares_memory = true;    ///< all ranks do, so the order of decisions may be locked
  Fault fault = Fault::none;
  int faulty_rank = 0;
  int step = 0;
  int tensor = 0;
};
/// `ranks`: 0: as the seed says, 2 to 12.
[[nodiscard]] Plan plan_of(std::uint64_t seed, int ranks);

/// The control plane of one job: the engines of its ranks and their messages, in one thread, on a virtual
/// clock. A collective ends when all ranks have come to it. The same plan always takes the same course.
class Job {
 public:
  explicit Job(const Plan& plan);
  /// Lets everything happen. Empty if all went as it must; else what did not.
  std::string run();
  /// The events of the run, a line each.
  [[nodiscard]] const std::vector<std::string>& history() const { return history_; }
  /// Steps that rank 0 began with a locked order.
  [[nodiscard]] int locked_steps() const { return locks_; }
  /// Until everything had happened.
  [[nodiscard]] Clock::duration time() const { return events_.now() - begin_; }

 private:
  struct Rank {
    int number = 0;
    std::unique_ptr<Control> control;
    std::unique_ptr<ReadinessVote> vote;
    std::uint32_t rings = 0;  // that it has turned for
    std::unique_ptr<Negotiator> negotiator;
    std::vector<Request> asks;        // submitted, not asked for yet
    std::deque<Decision> decisions;   // heard, not carried out yet
    std::optional<Decision> meets;    // in a collective
    std::size_t collectives = 0;      // so far
    std::set<std::string> submitted;  // and not given back
    int unsubmitted = 0;              // of this step
    int step = 0;
    int ordinals = 0;  // operations without a name, so far
    bool has_been_busy = false;
    bool leaves = false;
    bool has_left = false;
    bool turning = false;
    bool over = false;
    std::vector<std::string> errors;  // of tensors
    std::optional<Status> failure;    // of the job
    TimePoint ended;
  };
  /// A collective: all ranks must come to do the same.
  struct Collective {
    Decision decision;
    int ranks = 0;
  };

  void begin_step(Rank& rank);
  void submit(Rank& rank, int tensor);
  void continue_step(Rank& rank);
  void lose(Rank& rank, const Status& why);
  void turn(Rank& rank);
  bool turn_once(Rank& rank);
  void wake_those_rung_for();
  void look_for_stalls(Rank& root);
  void hear(Rank& rank, const Negotiator::Heard& heard);
  void carry_out(Rank& rank);
  void give_back(Rank& rank, const std::string& tensor, const Status& status);
  void fail(Rank& rank, const Status& why);
  void note(int rank, const std::string& what);
  [[nodiscard]] std::string next_name(Rank& rank, int tensor) const;
  [[nodiscard]] Clock::duration up_to(std::chrono::microseconds most);
  [[nodiscard]] bool afflicts(const Rank& rank) const;
  [[nodiscard]] std::string verdict() const;
  [[nodiscard]] std::string verdict_on_survivors() const;
  [[nodiscard]] std::string verdict_on(const Rank& rank) const;

  Plan plan_;
  std::mt19937_64 random_;
  Events events_;
  TimePoint begin_ = events_.now();
  std::vector<Member> members_;
  Network network_;
  std::vector<Rank> ranks_;
  Stalls stalls_;
  std::deque<Collective> collectives_;
  TimePoint happened_;                      // the fault
  std::string afflicted_;                   // the name of what the faulty rank has submitted otherwise
  TimePoint next_look_ = TimePoint::max();  // for what waits too long, that is planned
  int warnings_ = 0;
  int locks_ = 0;
  std::string first_error_;
  std::string broken_;  // what must never be
  std::vector<std::string> history_;
};

}  // namespace hora
