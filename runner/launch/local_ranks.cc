// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/local_ranks.h"

#include "core/join/network.h"
#include "runner/launch/binding.h"
#include "runner/launch/early_ends.h"
#include "runner/launch/guard.h"
#include "runner/launch/local_rank.h"
#include "runner/launch/reserved_listener.h"
#include "runner/launch/reserved_port.h"
#include "runner/streams/rank_inputs.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

namespace hora::hrun {
namespace {

constexpr int kMostHeld = 4096;  // messages that a socket can hold, and more

/// The sockets that the host of rank 0 keeps until its ranks run, or for as long as they do.
struct Front {
  explicit Front(const HostPlan& plan) : listener(std::in_place, plan.alone, plan.network) {}
  std::optional<ReservedListener> listener;
  ReservedPort master_port;
};

Descriptor make_epoll() {
  Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) fail("cannot make an epoll instance");
  return epoll;
}

class LocalRanks final : public HostRanks {
 public:
  explicit LocalRanks(const HostPlan& plan)
      : plan_(plan), bindings_(bind_ranks_here(plan.bind_to, plan.slots)) {
    for (const auto& binding : bindings_) ready_.bindings.push_back(describe(binding));
    if (plan.bind_to != BindTo::none && bindings_.empty())
      ready_.unbound = nothing_bound(plan.bind_to, plan.slots);
    const bool first = !plan.placements.empty() && plan.placements.front().rank == 0;
    if (first || plan.elastic)
      ready_.addresses = plan.alone ? std::vector<std::string>{"127.0.0.1"} : own_addresses(plan.network);
    if (!first) return;
    front_.emplace(plan);
    ready_.port = front_->listener->port();
    ready_.master_port = front_->master_port.number();
  }

  ~LocalRanks() override = default;
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  [[nodiscard]] State state() const override {
    if (!started_) return State::ready;
    const auto left = [](const auto& rank) { return rank && rank->left(); };
    const bool any = std::any_of(ranks_.newest.begin(), ranks_.newest.end(), left) ||
                     std::any_of(ranks_.replaced.begin(), ranks_.replaced.end(), left);
    return any ? State::running : State::over;
  }
  [[nodiscard]] const std::string& trouble() const override {
    static const std::string none;  // this host is always ready
    return none;
  }
  [[nodiscard]] const Ready& ready() const override { return ready_; }

  void start(const RendezvousPoint& rendezvous) override {
    started_ = true;
    rendezvous_ = rendezvous;
    for (int index = 0; index < static_cast<int>(plan_.placements.size()); ++index) {
      const RankPlacement& placement = plan_.placements[static_cast<std::size_t>(index)];
      RankStart start = start_of(index, placement, first_member(placement.rank));
      if (placement.rank == 0) start.listener = front_->listener->fd();
      ranks_.newest.push_back(make_rank(index, start));
    }
    if (front_) front_->listener.reset();
  }

  void start_one(int index, const RankPlacement& placement, elastic::MemberId member) override {
    if (index == static_cast<int>(ranks_.newest.size())) ranks_.newest.emplace_back();
    RankStart start = start_of(index, placement, member);
    start.late = true;
    try {
      auto& rank = ranks_.newest.at(static_cast<std::size_t>(index));
      auto next = make_rank(index, start);
      if (rank && rank->running()) ranks_.replaced.push_back(std::move(rank));
      rank = std::move(next);
    } catch (const Error& error) {
      events_.push_back({.kind = RankEvent::Kind::ended,
                         .index = index,
                         .ending = {kNotStarted, fmt::format("was not started: {}", error.what()), 0},
                         .when = Clock::now()});
    }
  }

  void interrupt() override { tell_to_end(SIGINT); }
  void terminate() override { tell_to_end(SIGTERM); }

  void tell(const RankEnd& end) override {
    const Bytes message = encode(end);
    each([&](LocalRank& rank) { rank.tell(message); });
  }

  void part() override {}  // they are children of this process
  void kill() override {
    told_ = Told::killed;
    each([](LocalRank& rank) { rank.kill(); });
  }

  void kill_one(int index) override {
    if (LocalRank* rank = find(index)) rank->kill();
  }

  void send(int index, const elastic::LeaderMessage& message) override {
    if (LocalRank* rank = find(index)) rank->send(message);
  }

  void ask(const Question& question) override {
    const Bytes message = encode(question);
    each([&](LocalRank& rank) { rank.ask(message); });
  }

  [[nodiscard]] std::size_t room() const override { return inputs_.room(); }
  void feed(std::string_view bytes) override { inputs_.give(bytes); }
  void resize(WindowSize size) override { inputs_.resize(size); }

  void watch(std::vector<pollfd>& events) const override {
    events.push_back({replies_.fd(), POLLIN, 0});
    if (plan_.elastic) events.push_back(early_ends_.event());
    inputs_.watch(events);
    for (const auto& rank : ranks_.newest) {
      if (rank) rank->watch(events);
    }
  }
  [[nodiscard]] TimePoint next() const override {
    return events_.empty() ? TimePoint::max() : TimePoint::min();
  }

  void child_changed(int pid, int wait_status, TimePoint now) override {
    // Also of one that is no rank: processes that ranks have left behind become children of this one.
    if (WIFEXITED(wait_status) || WIFSIGNALED(wait_status)) look_for_empty_groups_ = true;
    std::erase_if(ranks_.replaced, [&](const auto& rank) {
      if (rank->pid() == pid) rank->reaped();
      return !rank->running();
    });
    const int index = index_of(pid);
    if (index < 0) return;
    if (WIFSTOPPED(wait_status)) {
      events_.push_back({.kind = RankEvent::Kind::stopped,
                         .index = index,
                         .ending = describe_stop(WSTOPSIG(wait_status)),
                         .when = now});
    } else if (WIFCONTINUED(wait_status)) {
      events_.push_back({.kind = RankEvent::Kind::resumed, .index = index, .when = now});
    } else {
      end(index, wait_status, now);
      at(index).reaped();
    }
  }

  std::vector<RankEvent> turn(TimePoint now) override {
    if (std::exchange(look_for_empty_groups_, false)) {
      each([](LocalRank& rank) { rank.look_if_left(); });
    }
    take_what_was_sent();
    if (plan_.elastic) take_early_ends(now);
    each([](LocalRank& rank) { rank.flush(); });
    inputs_.move();
    return std::exchange(events_, {});
  }

  [[nodiscard]] std::shared_ptr<OutputSource> output(int index) override {
    const LocalRank* rank = find(index);
    return rank == nullptr ? no_output() : rank->output();
  }
  [[nodiscard]] std::shared_ptr<OutputSource> errors(int index) override {
    const LocalRank* rank = find(index);
    return rank == nullptr ? no_output() : rank->errors();
  }

 private:
  /// Null: its process could not be started.
  LocalRank* find(int index) { return ranks_.newest.at(static_cast<std::size_t>(index)).get(); }
  LocalRank& at(int index) { return *find(index); }
  template <typename Function>
  void each(const Function& function) {
    for (const auto& rank : ranks_.newest) {
      if (rank) function(*rank);
    }
  }

  /// The index of the rank of a process that has not been reaped; -1: there is none.
  [[nodiscard]] int index_of(int pid) const {
    const auto found = std::find_if(ranks_.newest.begin(), ranks_.newest.end(), [&](const auto& rank) {
      return rank && rank->running() && rank->pid() == pid;
    });
    return found == ranks_.newest.end() ? -1 : static_cast<int>(found - ranks_.newest.begin());
  }

  // --- starting ---

  [[nodiscard]] RankStart start_of(int index, const RankPlacement& placement,
                                   elastic::MemberId member) const {
    const auto at = static_cast<std::size_t>(index);
    return {.plan = plan_,
            .placement = placement,
            .rendezvous = rendezvous_,
            .binding = at < bindings_.size() ? &bindings_[at] : nullptr,
            .member = member};
  }

  std::unique_ptr<LocalRank> make_rank(int index, const RankStart& start) {
    auto rank = std::make_unique<LocalRank>(start, guard_, inputs_);
    rank->hear_on(replies_.fd(), index);
    events_.push_back({.kind = RankEvent::Kind::started, .index = index, .pid = rank->pid()});
    return rank;
  }

  // --- hearing ---

  void take_what_was_sent() {
    if (ranks_.newest.empty()) return;
    std::vector<epoll_event> ready(2 *
                                   ranks_.newest.size());  // of each line one message: others get their turn
    const int count = ::epoll_wait(replies_.fd(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
      const int number = static_cast<int>(ready[static_cast<std::size_t>(i)].data.u32);
      if (number % 2 == 0) {
        take_reply(number / 2);
      } else {
        take_message(number / 2);
      }
    }
  }

  /// Returns whether there was one.
  bool take_reply(int index) {
    auto reply = at(index).take_reply(space_);
    if (!reply) return false;
    events_.push_back({.kind = RankEvent::Kind::answered, .index = index, .answer = *std::move(reply)});
    return true;
  }
  bool take_message(int index) {
    LocalRank& rank = at(index);
    auto message = rank.take_message(space_);
    if (!message) return false;
    if (auto life = rank.take_life()) early_ends_.follow(rank.pid(), std::move(life));
    events_.push_back({.kind = RankEvent::Kind::told, .index = index, .message = *std::move(message)});
    return true;
  }

  // --- ending ---

  void take_early_ends(TimePoint now) {
    for (const auto& early : early_ends_.take()) {
      const int index = index_of(early.process);
      if (index >= 0) end(index, early.wait_status, now);
    }
  }

  /// Of a process that ends or has ended, when that is known first.
  void end(int index, int wait_status, TimePoint now) {
    if (at(index).is_ending()) return;
    Ending ending = describe_ending(wait_status);
    while (take_reply(index)) {  // what it said before
    }
    for (int i = 0; i < kMostHeld && take_message(index); ++i) {
    }
    const std::string trouble = at(index).end();
    if (!trouble.empty()) ending.how = "was ended by hrun: " + trouble;
    // Processes that were told to end have time for it, also without a leader. Else they are what an ended
    // rank left behind.
    if (told_ != Told::to_end) at(index).kill();
    events_.push_back(
        {.kind = RankEvent::Kind::ended, .index = index, .ending = std::move(ending), .when = now});
  }

  void tell_to_end(int signal) {
    told_ = std::max(told_, Told::to_end);
    signal_all(signal);
    signal_all(SIGCONT);  // one that is stopped would not hear that
  }

  void signal_all(int signal) {
    each([&](LocalRank& rank) { rank.signal(signal); });
  }

  const HostPlan plan_;
  const std::vector<Binding> bindings_;  // of the ranks, in order; empty: none is bound
  Guard guard_;
  const Descriptor replies_{make_epoll()};  // of all sockets of ranks
  Bytes space_ = Bytes(kMostReplyBytes);
  std::optional<Front> front_;
  Ready ready_;
  RendezvousPoint rendezvous_;
  struct {
    std::vector<std::unique_ptr<LocalRank>> newest;    // by index; null: it could not be started
    std::vector<std::unique_ptr<LocalRank>> replaced;  // that are not reaped yet
  } ranks_;
  EarlyEnds early_ends_;  // of an elastic job
  RankInputs inputs_;
  std::vector<RankEvent> events_;
  bool started_ = false;
  enum class Told { nothing, to_end, killed } told_ = Told::nothing;
  bool look_for_empty_groups_ = false;
};

}  // namespace

std::unique_ptr<HostRanks> make_local_ranks(const HostPlan& plan) {
  return std::make_unique<LocalRanks>(plan);
}

}  // namespace hora::hrun
