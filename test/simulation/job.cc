// SPDX-License-Identifier: Apache-2.0
#include "test/simulation/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Stalls::Limits kLimits{seconds(60), seconds(600)};
constexpr seconds kNoticesSilence{5};
constexpr microseconds kCollective{200};
constexpr seconds kBusy{3000};  // longer than all limits
// The time of messages on their way: a few of the slowest ones, one after the other.
constexpr seconds kSlack{2};

std::vector<Member> members_of(int ranks) {
  std::vector<Member> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back({rank, 1000 + rank, "node", {}});
  return members;
}

}  // namespace

const char* name(Fault fault) {
  constexpr std::array kNames{"none", "slow", "death", "silence", "shape", "skip", "stand still", "busy"};
  return kNames[static_cast<std::size_t>(fault)];
}

Plan plan_of(std::uint64_t seed, int ranks) {
  std::mt19937_64 random(seed);
  const auto below = [&random](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  Plan plan;
  plan.seed = seed;
  plan.fault = static_cast<Fault>(below(kFaults));
  plan.ranks = ranks != 0 ? ranks : 2 + below(11);
  plan.steps = 2 + below(6);
  plan.tensors = 1 + below(8);
  plan.capacity = below(3) == 0 ? static_cast<std::size_t>(1 + below(6)) : 8192;
  plan.shares_memory = below(3) != 0;
  plan.radix = below(2) == 0 ? 0 : 1 + below(4);
  if (plan.shares_memory) plan.steps += 8 * below(3);
  plan.faulty_rank = below(plan.ranks);
  plan.step = below(plan.steps);
  plan.tensor = below(plan.tensors);
  plan.unnamed = below(3) == 0 ? 1 + below(plan.tensors) : 0;
  return plan;
}

Job::Job(const Plan& plan)
    : plan_(plan),
      random_(plan.seed),
      members_(members_of(plan.ranks)),
      network_(
          events_, random_, plan.ranks, plan.radix,
          [this](int rank) { turn(ranks_[static_cast<std::size_t>(rank)]); },
          [this](int rank, const Status& why) { lose(ranks_[static_cast<std::size_t>(rank)], why); }),
      ranks_(static_cast<std::size_t>(plan.ranks)),
      stalls_(kLimits, members_),
      happened_(begin_) {
  auto votes = make_votes(plan_.ranks);
  for (int number = 0; number < plan_.ranks; ++number) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    rank.number = number;
    rank.control = network_.control(number);
    rank.vote = std::move(votes[static_cast<std::size_t>(number)]);
    WakeUp(rank.vote->wake_up()).sleeps_for(Sleep::any_news);
    rank.negotiator = std::make_unique<Negotiator>(
        *rank.control, plan_.shares_memory ? rank.vote.get() : nullptr, plan_.capacity);
    events_.after(up_to(seconds(1)), [this, &rank] { begin_step(rank); });
  }
  if (plan_.fault == Fault::death || plan_.fault == Fault::silence) {
    events_.after(up_to(milliseconds(1000 + 20 * plan_.steps)), [this] {
      Rank& victim = ranks_[static_cast<std::size_t>(plan_.faulty_rank)];
      if (victim.over) return;
      note(plan_.faulty_rank, name(plan_.fault));
      happened_ = events_.now();
      victim.over = true;
      network_.kill(plan_.faulty_rank,
                    plan_.fault == Fault::death ? up_to(milliseconds(20)) : kNoticesSilence);
    });
  }
}

std::string Job::run() {
  while (broken_.empty() && events_.next()) {
  }
  return broken_.empty() ? verdict() : broken_;
}

bool Job::afflicts(const Rank& rank) const {
  return rank.number == plan_.faulty_rank && rank.step == plan_.step;
}

/// The name of the operation that a rank submits now. An operation that is left out has a name: without one,
/// ranks would be out of step for good.
std::string Job::next_name(Rank& rank, int tensor) const {
  const bool left_out = plan_.fault == Fault::stand_still || plan_.fault == Fault::skip;
  const bool unnamed = tensor < plan_.unnamed && !(left_out && tensor == plan_.tensor);
  return unnamed ? fmt::format("allreduce.noname.{}", ++rank.ordinals) : fmt::format("t{}", tensor);
}

Clock::duration Job::up_to(microseconds most) {
  return microseconds(random_() % static_cast<std::uint64_t>(most.count() + 1));
}

// --- the user ---

void Job::begin_step(Rank& rank) {
  if (rank.over) return;
  if (rank.step == plan_.steps) {
    rank.leaves = true;
    note(rank.number, "leaves");
    return turn(rank);
  }
  if (plan_.fault == Fault::busy && afflicts(rank) && !std::exchange(rank.has_been_busy, true)) {
    note(rank.number, "is busy");
    rank.negotiator->report(Report::delay, encode(Delay{"evaluation", kBusy + seconds(10)}));
    turn(rank);
    events_.after(kBusy, [this, &rank] { begin_step(rank); });
    return;
  }
  if (rank.number == 0 && rank.negotiator->is_locked()) ++locks_;
  std::vector<int> order(static_cast<std::size_t>(plan_.tensors));
  for (int tensor = 0; tensor < plan_.tensors; ++tensor) order[static_cast<std::size_t>(tensor)] = tensor;
  std::shuffle(order.begin(), order.end(), random_);
  rank.unsubmitted = plan_.tensors;
  TimePoint when = events_.now();
  if (plan_.fault == Fault::slow && rank.number == plan_.faulty_rank) when += seconds(1);
  for (const int tensor : order) {
    when += up_to(milliseconds(3));
    events_.at(when, [this, &rank, tensor] { submit(rank, tensor); });
  }
}

void Job::submit(Rank& rank, int tensor) {
  if (rank.over) return;
  const bool afflicted = afflicts(rank) && tensor == plan_.tensor;
  if (afflicted && (plan_.fault == Fault::stand_still || plan_.fault == Fault::skip)) {
    note(rank.number, fmt::format("leaves out {}", next_name(rank, tensor)));
    happened_ = events_.now();
    if (plan_.fault == Fault::stand_still) rank.unsubmitted = 1 << 20;  // its user never comes back
  } else {
    Request request;
    request.name = next_name(rank, tensor);
    if (afflicted) afflicted_ = request.name;
    request.shape = {4, afflicted && plan_.fault == Fault::shape ? 5 : 3};
    rank.submitted.insert(request.name);
    rank.asks.push_back(request);
    note(rank.number, fmt::format("submits {}", request.name));
  }
  --rank.unsubmitted;
  turn(rank);
  continue_step(rank);
}

void Job::continue_step(Rank& rank) {
  if (rank.over || rank.unsubmitted != 0 || !rank.submitted.empty() || rank.leaves) return;
  ++rank.step;
  rank.unsubmitted = -1;  // until the next step begins
  events_.after(up_to(milliseconds(20)), [this, &rank] { begin_step(rank); });
}

// --- the engine ---

void Job::turn(Rank& rank) {
  if (rank.turning) return;  // it is in one, and will see
  rank.turning = true;
  while (turn_once(rank)) {
  }
  rank.turning = false;
  const TimePoint next = rank.negotiator->next_look();
  if (next != TimePoint::max() && !rank.over && !rank.meets && network_.alive(rank.number))
    events_.at(std::max(next, events_.now() + microseconds(1)), [this, &rank] { turn(rank); });
  wake_those_rung_for();
}

/// Other ranks see a moment later what one rank has done in shared memory.
void Job::wake_those_rung_for() {
  for (auto& rank : ranks_) {
    const std::uint32_t rings = WakeUp(rank.vote->wake_up()).rings();
    if (std::exchange(rank.rings, rings) != rings)
      events_.after(up_to(microseconds(50)), [this, &rank] { turn(rank); });
  }
}

/// A collective that the rank is in is aborted; else it reads the PeerLost when it comes to that.
void Job::lose(Rank& rank, const Status& why) {
  if (rank.meets && !rank.over) return fail(rank, why);
  turn(rank);
}

/// Whether there may be more to do at once.
bool Job::turn_once(Rank& rank) {
  if (rank.over || rank.meets || !network_.alive(rank.number)) return false;
  try {
    if (!rank.asks.empty()) rank.negotiator->ask(kWorld, std::exchange(rank.asks, {}), events_.now());
    if (rank.leaves && !std::exchange(rank.has_left, true)) rank.negotiator->leave(events_.now());
    if (rank.number == 0) look_for_stalls(rank);
    const auto news = rank.negotiator->hear(events_.now(), false);
    for (const auto& heard : news) hear(rank, heard);
    carry_out(rank);
    if (rank.number == 0 && !rank.over && !rank.meets) look_for_stalls(rank);  // as the next turn would
    return rank.negotiator->has_more() && !rank.over && !rank.meets;
  } catch (const Error& error) {
    if (error.code() == Code::internal) broken_ = fmt::format("rank {}: {}", rank.number, error.what());
    fail(rank, error.status());
    return false;
  }
}

void Job::look_for_stalls(Rank& root) {
  for (const auto& [from, kind, content] : root.negotiator->take_reports()) {
    if (kind == Report::account) stalls_.tell(from, decode_account(content));
    if (kind == Report::delay) stalls_.expect_delay(from, decode_delay(content), events_.now());
  }
  const auto advice = stalls_.look(*root.negotiator, events_.now());
  for (const auto& warning : advice.warnings) {
    ++warnings_;
    note(0, "warns: " + warning);
  }
  for (const int rank : advice.ask) {
    if (rank == 0) {
      stalls_.tell(0, {});
      events_.after(microseconds(0), [this, &root] { turn(root); });
    } else {
      root.negotiator->inquire(rank);
    }
  }
  if (advice.next < next_look_ || next_look_ <= events_.now()) {
    next_look_ = advice.next;
    if (advice.next != TimePoint::max()) events_.at(advice.next, [this, &root] { turn(root); });
  }
  if (advice.verdict) root.control->call_off(*advice.verdict);
}

void Job::hear(Rank& rank, const Negotiator::Heard& heard) {
  if (heard.inquiry) rank.negotiator->report(Report::account, encode(Account{rank.collectives, "", {}, ""}));
  rank.decisions.insert(rank.decisions.end(), heard.decisions.begin(), heard.decisions.end());
  if (!heard.end) return;
  note(rank.number, "ends");
  rank.over = true;
  rank.ended = events_.now();
}

/// Until the next collective, in which it is until all ranks have come.
void Job::carry_out(Rank& rank) {
  while (!rank.meets && !rank.decisions.empty()) {
    const Decision decision = rank.decisions.front();
    rank.decisions.pop_front();
    if (!decision.status.ok()) {
      give_back(rank, decision.request.name, decision.status);
      continue;
    }
    const std::size_t which = rank.collectives++;
    if (which == collectives_.size()) collectives_.push_back({decision, 0});
    Collective& collective = collectives_[which];
    if (collective.decision != decision) {
      broken_ = fmt::format("rank {} carries out '{}' where others carry out '{}'", rank.number,
                            decision.request.name, collective.decision.request.name);
      return;
    }
    rank.meets = decision;
    if (++collective.ranks < plan_.ranks) return;
    events_.after(kCollective, [this, which] {
      for (auto& each : ranks_) {
        if (each.over || !each.meets || each.collectives != which + 1) continue;
        const std::string tensor = std::exchange(each.meets, std::nullopt)->request.name;
        give_back(each, tensor, {});
        carry_out(each);
        turn(each);
      }
    });
  }
}

void Job::give_back(Rank& rank, const std::string& tensor, const Status& status) {
  if (rank.submitted.erase(tensor) == 0) {
    broken_ = fmt::format("rank {} is given back '{}', which it has not submitted", rank.number, tensor);
    return;
  }
  if (!status.ok()) {
    if (first_error_.empty()) first_error_ = status.message;
    rank.errors.push_back(status.message);
    note(rank.number, status.message);
  }
  continue_step(rank);
}

void Job::fail(Rank& rank, const Status& why) {
  note(rank.number, "fails: " + why.message);
  rank.failure = why;
  rank.over = true;
  rank.ended = events_.now();
}

void Job::note(int rank, const std::string& what) {
  history_.push_back(
      fmt::format("{:12.6f} s  rank {}: {}", std::chrono::duration<double>(time()).count(), rank, what));
}

// --- what must be true when all has happened ---

std::string Job::verdict() const {
  for (const auto& rank : ranks_) {
    if (!rank.over && !(plan_.fault == Fault::stand_still && rank.number == plan_.faulty_rank))
      return fmt::format("rank {} hangs in step {}", rank.number, rank.step);
  }
  if (plan_.fault == Fault::death || plan_.fault == Fault::silence) return verdict_on_survivors();
  for (const auto& rank : ranks_) {
    if (auto wrong = verdict_on(rank); !wrong.empty()) return wrong;
  }
  if (warnings_ != 0 && plan_.fault != Fault::skip && plan_.fault != Fault::stand_still)
    return "there was a warning, and no reason for one";
  return "";
}

/// All hear of the one who is gone, soon; or it was gone when all was over.
std::string Job::verdict_on_survivors() const {
  const auto limit =
      (plan_.fault == Fault::death ? milliseconds(20) : milliseconds(kNoticesSilence)) + kSlack;
  for (const auto& rank : ranks_) {
    if (rank.number == plan_.faulty_rank && !network_.alive(rank.number)) continue;
    if (!rank.failure) continue;
    if (rank.failure->message != fmt::format("rank {} is gone", plan_.faulty_rank))
      return fmt::format("rank {} blames somebody else: {}", rank.number, rank.failure->message);
    if (rank.ended - happened_ > limit) return fmt::format("rank {} heard of it too late", rank.number);
  }
  return "";
}

std::string Job::verdict_on(const Rank& rank) const {
  const bool stands = plan_.fault == Fault::stand_still;
  if (rank.failure && !stands && plan_.fault != Fault::skip)
    return fmt::format("rank {} fails: {}", rank.number, rank.failure->message);
  if (stands && plan_.ranks > 1) {
    if (!rank.failure)
      return fmt::format("rank {} does not hear that rank {} is missing", rank.number, plan_.faulty_rank);
    if (rank.failure->message.find(fmt::format("missing:\n  rank {} (", plan_.faulty_rank)) ==
        std::string::npos)
      return "the verdict does not name who is missing: " + rank.failure->message;
    const auto waited = rank.ended - happened_;
    if (waited < kLimits.timeout - kSlack || waited > kLimits.timeout + seconds(1) + kSlack)
      return fmt::format("rank {} hears the verdict at another time than it should", rank.number);
    return "";
  }
  for (const auto& error : rank.errors) {
    const bool mismatch = plan_.fault == Fault::shape &&
                          error.find(fmt::format("'{}': tensor differs between ranks", afflicted_)) == 0;
    // A rank that goes on after such an error leaves before others, too.
    const bool left =
        plan_.fault == Fault::skip &&
        error.find("has left the job without submitting it") != std::string::npos &&
        first_error_.find(fmt::format("rank {} has left", plan_.faulty_rank)) != std::string::npos;
    if (!mismatch && !left)
      return fmt::format("rank {} gets an error without a reason: {}", rank.number, error);
  }
  if (plan_.fault == Fault::shape && rank.errors.size() != 1)
    return fmt::format("rank {} gets {} errors of the one tensor that differs", rank.number,
                       rank.errors.size());
  return "";
}

}  // namespace hora
