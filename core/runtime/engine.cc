// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/engine.h"

#include "core/base/cores.h"
#include "core/device/pause.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

constexpr std::chrono::microseconds kSpin{20};  // about what going to sleep and being woken costs
thread_local bool runs_loop_here = false;       // this thread runs a loop for an engine, or is about to
constexpr Clock::rep kNever = TimePoint::max().time_since_epoch().count();

}  // namespace

Engine::Engine(Loop& loop, int ranks_here, bool helps)
    : loop_(loop),
      alert_(loop.alert()),
      helps_(helps),
      crowded_(std::min(count_cores(usable_cores()), core_quota()) < ranks_here),
      owner_(::getpid()) {}

Engine::~Engine() { join(); }

void Engine::stop() {
  join();
  helps_.store(false, std::memory_order_seq_cst);
  await_helpers();
}

void Engine::keep_to_own_thread() {
  if (helps_.exchange(false, std::memory_order_seq_cst)) alert_.ring();
  await_helpers();
}

void Engine::await_helpers() {
  if (runs_loop_here) return;  // called by what the loop calls, such as `done`
  while (const int helping = helping_.load(std::memory_order_seq_cst)) helping_.wait(helping);
}

void Engine::start() {
  thread_ = std::thread([this] { run(); });
}

bool Engine::calls_this_thread() { return runs_loop_here; }

void Engine::join() {
  if (thread_.joinable()) thread_.join();
}

void Engine::submitted(bool waits) {
  if (!waits || !helps_.load(std::memory_order_seq_cst)) alert_.ring_for_submission();
}

void Engine::run() {
  runs_loop_here = true;
  while (true) {
    until_.store(kNever, std::memory_order_seq_cst);
    std::uint32_t seen = alert_.rings();
    if (!take_token()) {
      alert_.wait(seen, TimePoint::max());
      continue;
    }
    alert_.sleeps_for(Sleep::none);
    Loop::Turn turn;
    do {
      seen = alert_.rings();
      if (!over_) turn = loop_.turn(false);
      over_ = over_ || turn.over;
    } while (!over_ && turn.more);
    if (over_) return give_token_back();
    bool news = loop_.waits_for_others() && spin(seen, [] { return false; });
    until_.store(turn.next.time_since_epoch().count(), std::memory_order_seq_cst);
    alert_.sleeps_for(sleep_now());
    news = news || loop_.may_go_on();
    give_token_back();
    if (!news) alert_.wait(seen, turn.next);
  }
}

void Engine::help(const Handle::State& wanted, TimePoint deadline) {
  if (::getpid() != owner_) return;
  helping_.fetch_add(1, std::memory_order_seq_cst);
  if (helps_.load(std::memory_order_seq_cst)) {
    if (std::exchange(runs_loop_here, true)) {
      alert_.ring();  // it is in the middle of another loop
    } else {
      help_on(wanted, deadline);
      runs_loop_here = false;
    }
  }
  helping_.fetch_sub(1, std::memory_order_seq_cst);
  if (!helps_.load(std::memory_order_seq_cst)) helping_.notify_all();
}

void Engine::help_on(const Handle::State& wanted, TimePoint deadline) {
  const TimePoint enough = Clock::now() + kSpin;
  while (!wanted.has_ended()) {
    if (take_token()) return drive(wanted, deadline);
    if (Clock::now() >= enough) return alert_.ring();
    crowded_ ? static_cast<void>(::sched_yield()) : pause_briefly();
  }
}

void Engine::drive(const Handle::State& wanted, TimePoint deadline) {
  alert_.sleeps_for(Sleep::none);
  std::uint32_t seen = 0;
  Loop::Turn turn;
  turn.more = true;
  while (!over_ && helps_.load(std::memory_order_seq_cst)) {
    seen = alert_.rings();
    turn = loop_.turn(true);
    over_ = turn.over;
    if (wanted.has_ended() || (deadline != TimePoint::max() && Clock::now() >= deadline)) break;
    if (turn.more || over_) continue;
    const TimePoint until = std::min(turn.next, deadline);
    if (spin(seen, [&] { return wanted.has_ended(); })) continue;
    alert_.sleeps_for(sleep_now());
    if (!loop_.may_go_on()) alert_.wait(seen, until);
    alert_.sleeps_for(Sleep::none);
  }
  alert_.sleeps_for(sleep_now());
  const bool left = over_ || turn.more || loop_.may_go_on();
  give_token_back();
  if (left || alert_.rings() != seen ||
      turn.next.time_since_epoch().count() < until_.load(std::memory_order_seq_cst))
    alert_.ring();
}

/// Looks again and again for news, for about as long as going to sleep would cost; whether there is some.
template <typename Enough>
bool Engine::spin(std::uint32_t seen, const Enough& enough) {
  const TimePoint until = Clock::now() + kSpin;
  do {
    if (crowded_) ::sched_yield();
    for (int i = 0; i < 32; ++i) {
      if (alert_.rings() != seen || loop_.may_go_on() || enough()) return true;
      if (crowded_) break;
      pause_briefly();
    }
  } while (Clock::now() < until);
  return false;
}

Sleep Engine::sleep_now() const { return loop_.waits_for_others() ? Sleep::peers : Sleep::any_news; }

}  // namespace hora
