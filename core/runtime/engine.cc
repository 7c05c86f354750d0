// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/engine.h"

#include "core/base/thread.h"
#include "core/device/spin.h"

#include <sys/prctl.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

thread_local bool runs_loop_here = false;  // this thread runs a loop for an engine, or is about to
thread_local int blocking_scopes_here = 0;
thread_local WakeUp* owed_here = nullptr;  // what this thread is to ring, unless it waits
constexpr Clock::rep kNever = TimePoint::max().time_since_epoch().count();

}  // namespace

/// It has a core of its own: what it does costs the program nothing.
constexpr Engine::Patience Engine::kBeside{std::size_t{64} << 10, std::chrono::microseconds(50),
                                           std::chrono::microseconds(200)};
/// It takes the core that the program computes on, and finds nothing in its caches: each time costs some 50
/// us, and what comes in the meantime is agreed on together. No longer, for the sake of a rank that waits for
/// what this one has submitted and does not wait for.
constexpr Engine::Patience Engine::kInBetween{std::size_t{256} << 10, std::chrono::milliseconds(1),
                                              std::chrono::milliseconds(1)};

BlockingScope::BlockingScope() noexcept { ++blocking_scopes_here; }

BlockingScope::~BlockingScope() {
  --blocking_scopes_here;
  if (WakeUp* owed = std::exchange(owed_here, nullptr)) owed->ring();
}

Engine::Engine(Loop& loop, bool helps) : loop_(loop), wake_up_(loop.wake_up()), helps_(helps) {}

Engine::~Engine() { join(); }

void Engine::stop() {
  if (owed_here == &wake_up_) owed_here = nullptr;
  join();
  helps_.store(false, std::memory_order_seq_cst);
  await_helpers();
}

void Engine::keep_to_own_thread() {
  if (helps_.exchange(false, std::memory_order_seq_cst)) wake_up_.ring();
  await_helpers();
}

void Engine::await_helpers() {
  if (runs_loop_here) return;  // called by what the loop calls, such as `done`
  while (const int helping = helping_.load(std::memory_order_seq_cst)) helping_.wait(helping);
}

void Engine::start() {
  thread_ = start_thread("runs operations", [this] { run(); });
}

bool Engine::calls_this_thread() { return runs_loop_here; }

void Engine::join() {
  if (thread_.joinable()) thread_.join();
}

void Engine::submitted(std::size_t bytes) {
  const std::size_t least = std::max<std::size_t>(bytes, 1);
  const std::size_t gathered = gathered_.fetch_add(least, std::memory_order_relaxed) + least;
  if (blocking_scopes_here > 0 && helps_.load(std::memory_order_seq_cst)) {
    if (owed_here != nullptr && owed_here != &wake_up_) owed_here->ring();
    owed_here = &wake_up_;
    return;
  }
  submissions_.fetch_add(1, std::memory_order_seq_cst);
  wake_up_.count_submission();
  const bool is_little = gathered < patience().much;
  const Clock::rep soon = looks_at_.load(std::memory_order_seq_cst);
  if (!is_little || Clock::now().time_since_epoch().count() >= soon) wake_up_.wake_for_submission();
}

const Engine::Patience& Engine::patience() const {
  return shares_core_.load(std::memory_order_relaxed) ? kInBetween : kBeside;
}

Engine::Seen Engine::look() const {
  const std::uint32_t rings = wake_up_.rings();
  return {rings, submissions_.load(std::memory_order_seq_cst)};
}

/// Only where nobody who waits has to wait for this thread.
bool Engine::has_gathered_little() const {
  const auto bytes = gathered_.load(std::memory_order_relaxed);
  return bytes > 0 && bytes < patience().much && helps_.load(std::memory_order_seq_cst);
}

void Engine::rest(Seen seen, TimePoint until) {
  if (std::exchange(rested_at_, seen.rings) != seen.rings && helps_.load(std::memory_order_seq_cst)) {
    nap(seen, until);
  } else {
    next_nap_ = {};
    wake_up_.wait(seen.rings, until);
  }
}

void Engine::nap(Seen seen, TimePoint until) {
  const Patience& shown = patience();
  const auto length = std::max(next_nap_, shown.nap);
  next_nap_ = std::min(2 * length, shown.longest_nap);
  const TimePoint end = std::min(until, Clock::now() + length);
  has_napped_ = true;
  looks_at_.store(end.time_since_epoch().count(), std::memory_order_seq_cst);
  while (true) {
    const Seen news = look();
    const bool other_news = news.rings - seen.rings > news.submissions - seen.submissions;
    const bool much = gathered_.load(std::memory_order_relaxed) >= shown.much;
    if (other_news || much || Clock::now() >= end) break;
    wake_up_.wait(news.rings, end);
  }
  looks_at_.store(0, std::memory_order_seq_cst);
}

Loop::Turn Engine::turn(bool pressing) {
  gathered_.store(0, std::memory_order_relaxed);
  return loop_.turn(pressing);
}

void Engine::run() {
  runs_loop_here = true;
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // else a nap takes twice as long
  while (true) {
    until_.store(kNever, std::memory_order_seq_cst);
    Seen seen = look();
    if (!take_token()) {
      rest(seen, TimePoint::max());
      continue;
    }
    const bool little = has_gathered_little();
    if (!std::exchange(has_napped_, false) && little && !loop_.waits_for_others()) {
      wake_up_.sleeps_for(Sleep::any_news);
      give_token_back();
      nap(seen, TimePoint::max());
      continue;
    }
    wake_up_.sleeps_for(Sleep::none);
    Loop::Turn turn;
    do {
      seen = look();
      if (!over_) turn = this->turn(false);
      over_ = over_ || turn.over;
    } while (!over_ && turn.more);
    if (over_) return give_token_back();
    const bool waits = loop_.waits_for_others();
    shares_core_.store(loop_.shares_its_core(), std::memory_order_relaxed);
    bool news = waits && !little && spin_for_news(seen.rings, nullptr);
    until_.store(turn.next.time_since_epoch().count(), std::memory_order_seq_cst);
    wake_up_.sleeps_for(sleep_now());
    news = news || loop_.may_go_on();
    give_token_back();
    if (news) continue;
    if (waits) {
      wake_up_.wait(seen.rings, turn.next);  // what is submitted can wait, too
    } else {
      rest(seen, turn.next);
    }
  }
}

void Engine::help(const Handle::State& wanted, TimePoint deadline) {
  if (owed_here == &wake_up_) owed_here = nullptr;
  helping_.fetch_add(1, std::memory_order_seq_cst);
  if (helps_.load(std::memory_order_seq_cst)) {
    if (std::exchange(runs_loop_here, true)) {
      wake_up_.ring();  // it is in the middle of another loop
    } else {
      help_on(wanted, deadline);
      runs_loop_here = false;
    }
  }
  helping_.fetch_sub(1, std::memory_order_seq_cst);
  if (!helps_.load(std::memory_order_seq_cst)) helping_.notify_all();
}

void Engine::help_on(const Handle::State& wanted, TimePoint deadline) {
  bool in_charge = false;
  const bool enough = spin(true, [&] { return wanted.has_ended() || (in_charge = take_token()); });
  if (in_charge) return drive(wanted, deadline);
  if (!enough) wake_up_.ring();
}

void Engine::drive(const Handle::State& wanted, TimePoint deadline) {
  wake_up_.sleeps_for(Sleep::none);
  std::uint32_t seen = 0;
  Loop::Turn turn;
  turn.more = true;
  while (!over_ && helps_.load(std::memory_order_seq_cst)) {
    seen = wake_up_.rings();
    turn = this->turn(true);
    over_ = turn.over;
    if (wanted.has_ended() || (deadline != TimePoint::max() && Clock::now() >= deadline)) break;
    if (turn.more || over_) continue;
    const TimePoint until = std::min(turn.next, deadline);
    if (spin_for_news(seen, &wanted)) continue;
    wake_up_.sleeps_for(sleep_now());
    if (!loop_.may_go_on()) wake_up_.wait(seen, until);
    wake_up_.sleeps_for(Sleep::none);
  }
  wake_up_.sleeps_for(sleep_now());
  const bool left = over_ || turn.more || loop_.may_go_on();
  give_token_back();
  if (left || wake_up_.rings() != seen ||
      turn.next.time_since_epoch().count() < until_.load(std::memory_order_seq_cst))
    wake_up_.ring();
}

/// Whether there is something to do, or what is wanted has ended, before it is worth going to sleep.
bool Engine::spin_for_news(std::uint32_t seen, const Handle::State* wanted) {
  return spin(loop_.crowded(), [&] {
    return wake_up_.rings() != seen || loop_.may_go_on() || (wanted != nullptr && wanted->has_ended());
  });
}

Sleep Engine::sleep_now() const { return loop_.waits_for_others() ? Sleep::peers : Sleep::any_news; }

}  // namespace hora
