// SPDX-License-Identifier: Apache-2.0
#include "test/bench/simulate/scale.h"

#include "core/comm/readiness_vote.h"
#include "core/negotiate/negotiator.h"
#include "test/simulation/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <tuple>

namespace hora {
namespace {

constexpr int kCachedSteps = 5;
constexpr int kStepsToLock = 20;
constexpr std::chrono::microseconds kWake{5};  // of a rank that sleeps, by another one of its machine

Clock::duration cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

double in_us(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

/// The bytes that an engine has sent in a turn.
struct Sent {
  Clock::duration used;  // of its CPU time, until then
  RankSet to;
  bool announced;
  std::shared_ptr<const Bytes> bytes;
};

/// One rank: its engine, and its control's I/O, each of which does one thing after the other.
struct Rank {
  std::unique_ptr<Control> control;
  std::unique_ptr<ReadinessVote> vote;
  std::unique_ptr<Negotiator> negotiator;
  std::deque<ControlEvent> events;
  std::size_t unread = 0;  // that have come since the last turn
  std::vector<Sent> sent;
  TimePoint engine_free;
  TimePoint io_free;
  bool scheduled = false;
  bool asks = false;
  std::size_t heard = 0;  // decisions in this step
  std::uint32_t rings = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  Clock::duration cpu{};
  Clock::duration began{};  // the present turn, in CPU time
};

class ScaleControl final : public Control {
 public:
  ScaleControl(Rank& own, int rank, int size, int radix)
      : own_(own), rank_(rank), size_(size), position_(position_in_tree(rank, size, radix)) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] const TreePosition& position() const override { return position_; }
  void send(int to, std::span<const std::byte> bytes) override { write(RankSet(to), false, bytes); }
  void announce(const RankSet& to, std::span<const std::byte> bytes) override { write(to, true, bytes); }
  std::optional<ControlEvent> receive(TimePoint /*deadline*/) override {
    if (own_.events.empty()) return std::nullopt;
    ControlEvent event = std::move(own_.events.front());
    own_.events.pop_front();
    return event;
  }
  void on_event(std::function<void()> /*notice*/) override {}
  void fail(const Status& why) override { throw Error(why); }
  void call_off(const Status& why) override { throw Error(why); }
  void on_loss(std::function<void(const Status&)> /*notice*/) override {}

 private:
  void write(const RankSet& to, bool announced, std::span<const std::byte> bytes) {
    own_.sent.push_back(
        {cpu_time() - own_.began, to, announced, std::make_shared<const Bytes>(bytes.begin(), bytes.end())});
  }

  Rank& own_;
  int rank_;
  int size_;
  TreePosition position_;
};

/// All of them, and what travels between them.
class Simulated {
 public:
  Simulated(int ranks, int radix, int tensors, const Costs& costs, bool locks)
      : costs_(costs), ranks_(static_cast<std::size_t>(ranks)) {
    for (int tensor = 0; tensor < tensors; ++tensor) {
      Request request;
      request.name = fmt::format("DistributedOptimizer.allreduce.layer{}.{}.conv{}.weight.{}", tensor % 5,
                                 tensor % 7, tensor % 3, tensor);
      request.shape = {64, 64 + tensor, 3, 3};
      requests_.push_back(std::move(request));
    }
    auto votes = locks ? make_votes(ranks) : std::vector<std::unique_ptr<ReadinessVote>>();
    for (int number = 0; number < ranks; ++number) {
      Rank& rank = at(number);
      rank.control = std::make_unique<ScaleControl>(rank, number, ranks, radix);
      if (locks) {
        rank.vote = std::move(votes[static_cast<std::size_t>(number)]);
        WakeUp(rank.vote->wake_up()).sleeps_for(Sleep::any_news);
      }
      rank.negotiator = std::make_unique<Negotiator>(*rank.control, rank.vote.get());
    }
  }

  /// From now on a turn that takes longer than twice what others of its kind did in the middle is charged
  /// that: one process for all ranks, on a machine that does other things, too, has pauses that they would
  /// not have.
  void be_steady() {
    for (auto& [kind, turns] : turns_) {
      const auto middle = turns.begin() + static_cast<std::ptrdiff_t>(turns.size() / 2);
      std::nth_element(turns.begin(), middle, turns.end());
      longest_[kind] = 2 * *middle;
    }
  }

  /// Everybody asks for everything; until everybody has heard of it.
  Phase step() {
    const TimePoint begin = events_.now();
    TimePoint end = begin;
    for (std::size_t number = 0; number < ranks_.size(); ++number) {
      Rank& rank = ranks_[number];
      rank.asks = true;
      rank.heard = rank.messages = rank.bytes = 0;
      rank.cpu = {};
      schedule(static_cast<int>(number));
    }
    while (events_.next()) {
    }
    Phase phase;
    for (const auto& rank : ranks_) {
      if (rank.heard != requests_.size()) throw std::runtime_error("a rank has not heard of all tensors");
      end = std::max(end, rank.engine_free);
      phase.messages = std::max(phase.messages, rank.messages);
      phase.bytes = std::max(phase.bytes, rank.bytes);
    }
    phase.latency_us = in_us(end - begin);
    phase.coordinator_us = in_us(ranks_.front().cpu);
    events_.after(std::chrono::milliseconds(1), [] {});
    while (events_.next()) {
    }
    return phase;
  }

  void forget_turns() { turns_.clear(); }

  [[nodiscard]] bool locked() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.negotiator->is_locked(); });
  }

 private:
  Rank& at(int number) { return ranks_[static_cast<std::size_t>(number)]; }

  void schedule(int number) {
    Rank& rank = at(number);
    if (std::exchange(rank.scheduled, true)) return;
    events_.at(rank.engine_free, [this, number] { turn(number); });
  }

  void turn(int number) {
    Rank& rank = at(number);
    rank.scheduled = false;
    const TimePoint now = events_.now();
    const Kind kind{rank.control->position().children.empty(), number == 0, rank.asks, rank.unread};
    const Clock::duration reads = costs_.message * static_cast<int>(std::exchange(rank.unread, 0));
    rank.began = cpu_time();
    if (std::exchange(rank.asks, false)) rank.negotiator->ask(kWorld, requests_, now);
    do {
      for (const auto& heard : rank.negotiator->hear(now, true)) rank.heard += heard.decisions.size();
    } while (rank.negotiator->has_more());
    const Clock::duration measured = cpu_time() - rank.began;
    turns_[kind].push_back(measured);
    const auto longest = longest_.find(kind);
    const Clock::duration used = longest == longest_.end() ? measured : std::min(measured, longest->second);
    rank.cpu += used;
    Clock::duration writes{};
    for (const auto& [until, to, announced, bytes] : std::exchange(rank.sent, {})) {
      const TimePoint begins = now + reads + std::min(until, used) + writes;
      rank.io_free = std::max(rank.io_free, begins);
      if (announced) {
        hand_on(number, to, bytes);
      } else {
        rank.io_free += cost_of(bytes->size());
        travel(number, to.front(), bytes->size(), rank.io_free,
               [this, number, parent = to.front(), message = bytes] { deliver(number, parent, *message); });
      }
      writes += rank.io_free - begins;  // an engine writes itself
    }
    rank.engine_free = now + reads + used + writes;
    wake_those_rung_for();
  }

  void wake_those_rung_for() {
    if (!ranks_.front().vote) return;
    for (std::size_t number = 0; number < ranks_.size(); ++number) {
      Rank& rank = ranks_[number];
      const std::uint32_t rings = WakeUp(rank.vote->wake_up()).rings();
      if (std::exchange(rank.rings, rings) == rings) continue;
      events_.after(kWake, [this, number] { schedule(static_cast<int>(number)); });
    }
  }

  [[nodiscard]] Clock::duration cost_of(std::size_t bytes) const {
    return costs_.message +
           std::chrono::nanoseconds(static_cast<std::int64_t>(costs_.byte_ns * static_cast<double>(bytes)));
  }

  template <typename Arrive>
  void travel(int from, int to, std::size_t bytes, TimePoint leaves, Arrive arrive) {
    for (const int end : {from, to}) {
      ++at(end).messages;
      at(end).bytes += bytes;
    }
    events_.at(leaves + costs_.hop, std::move(arrive));
  }

  void deliver(int from, int to, const Bytes& bytes) {
    Rank& rank = at(to);
    rank.events.push_back(ControlMessage{from, bytes, events_.now()});
    ++rank.unread;
    schedule(to);
  }

  void hand_on(int number, const RankSet& to, const std::shared_ptr<const Bytes>& bytes) {
    Rank& rank = at(number);
    const TreePosition& position = rank.control->position();
    for (std::size_t i = 0; i < position.children.size(); ++i) {
      const int child = position.children[i];
      const RankSet part = to.common(position.below(i));
      if (part.empty()) continue;
      rank.io_free += cost_of(bytes->size());
      travel(number, child, bytes->size(), rank.io_free, [this, child, part, bytes] {
        if (part.contains(child)) deliver(0, child, *bytes);
        Rank& next = at(child);
        next.io_free = std::max(next.io_free, events_.now()) + costs_.message;
        hand_on(child, part, bytes);
      });
    }
  }

  /// The kind of a turn: of a leaf, of rank 0, whether it asks, and how many messages it reads.
  using Kind = std::tuple<bool, bool, bool, std::size_t>;

  Costs costs_;
  Events events_;
  std::map<Kind, std::vector<Clock::duration>> turns_;  // so far
  std::map<Kind, Clock::duration> longest_;
  std::vector<Request> requests_;
  std::vector<Rank> ranks_;
};

}  // namespace

Outcome simulate(int ranks, int radix, int tensors, const Costs& costs, bool locks) {
  Simulated job(ranks, radix, tensors, costs, locks);
  Outcome outcome;
  for (int at = ranks - 1; at != 0; ++outcome.levels) at = position_in_tree(at, ranks, radix).parent;
  outcome.cold = job.step();
  job.forget_turns();
  const auto in_the_middle = [&job] {
    std::vector<Phase> steps;
    for (int step = 0; step < kCachedSteps; ++step) steps.push_back(job.step());
    const auto middle = steps.begin() + kCachedSteps / 2;
    std::nth_element(steps.begin(), middle, steps.end(),
                     [](const Phase& one, const Phase& other) { return one.latency_us < other.latency_us; });
    return *middle;
  };
  if (!locks) {
    outcome.cached = in_the_middle();
    job.be_steady();
    outcome.steady = in_the_middle();
    return outcome;
  }
  for (int step = 0; step < kStepsToLock && !job.locked(); ++step) static_cast<void>(job.step());
  static_cast<void>(job.step());
  outcome.locked = job.step();
  return outcome;
}

}  // namespace hora
