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
thread_local WakeUp* owed_here = nullptr;  // the wake-up that this thread must ring, unless it helps first
constexpr Clock::rep kNever = TimePoint::max().time_since_epoch().count();

}  // namespace

BlockingScope::BlockingScope() noexcept { ++blocking_scopes_here; }

BlockingScope::~BlockingScope() {
  --blocking_scopes_here;
  if (WakeUp* owed = std::exchange(owed_here, nullptr)) owed->ring();
}

Engine::Engine(Loop& loop, bool helps)
    : loop_(loop), wake_up_(loop.wake_up()), token_(helps), naps_(wake_up_) {}

Engine::~Engine() { join(); }

void Engine::stop() {
  if (owed_here == &wake_up_) owed_here = nullptr;
  join();
  keep_to_own_thread();
}

void Engine::keep_to_own_thread() {
  if (token_.forbid_help()) wake_up_.ring();
  if (!runs_loop_here) token_.await_helpers();  // else the loop has called this, for example through `done`
}

void Engine::start() {
  thread_ = start_thread("runs operations", [this] { run(); });
}

bool Engine::calls_this_thread() { return runs_loop_here; }

void Engine::join() {
  if (thread_.joinable()) thread_.join();
}

void Engine::submitted(std::size_t bytes) {
  const std::size_t gathered = naps_.gather(bytes);
  if (blocking_scopes_here == 0 || !token_.allows_help()) return naps_.submitted(gathered);
  if (owed_here != nullptr && owed_here != &wake_up_) owed_here->ring();
  owed_here = &wake_up_;
}

Loop::Turn Engine::turn(bool pressing) {
  naps_.begin_turn();
  Loop::Turn turn = loop_.turn(pressing);
  over_ = turn.over;
  return turn;
}

// --- the own thread ---

void Engine::run() {
  runs_loop_here = true;
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // else a nap takes twice as long
  while (true) {
    until_.store(kNever, std::memory_order_seq_cst);
    Naps::Seen seen = naps_.look();
    if (!token_.take()) {
      naps_.rest(seen, TimePoint::max(), token_.allows_help());
      continue;
    }
    // Only if a thread that waits can run the loop itself, and so does not depend on this thread.
    const bool little = naps_.has_gathered_little() && token_.allows_help();
    if (!naps_.take_napped() && little && !loop_.waits_for_others()) {
      wake_up_.sleeps_for(Sleep::any_news);
      token_.give_back();
      naps_.nap(seen, TimePoint::max());
      continue;
    }
    wake_up_.sleeps_for(Sleep::none);
    Loop::Turn last;
    do {
      seen = naps_.look();
      if (!over_) last = turn(false);
    } while (!over_ && last.more);
    if (over_) return token_.give_back();
    rest_after(seen, last, !little);
  }
}

/// Steps 4 and 5. `spins`: if other ranks have to answer, looks for news for a moment before it sleeps.
void Engine::rest_after(Naps::Seen seen, const Loop::Turn& last, bool spins) {
  const bool waits = loop_.waits_for_others();
  naps_.share_core(loop_.shares_its_core());
  bool news = waits && spins && spin_for_news(seen.rings, nullptr);
  until_.store(last.next.time_since_epoch().count(), std::memory_order_seq_cst);
  wake_up_.sleeps_for(sleep_now());
  news = news || loop_.may_go_on();
  token_.give_back();
  if (news) return;
  if (waits) {
    wake_up_.wait(seen.rings, last.next);  // submitted tensors can wait for the other ranks, too
  } else {
    naps_.rest(seen, last.next, token_.allows_help());
  }
}

// --- a thread that waits ---

void Engine::help(const Handle::State& wanted, TimePoint deadline) {
  if (owed_here == &wake_up_) owed_here = nullptr;
  const EngineToken::Help counted(token_);
  if (!token_.allows_help()) return;
  if (std::exchange(runs_loop_here, true)) return wake_up_.ring();  // it is in a turn of another loop
  help_on(wanted, deadline);
  runs_loop_here = false;
}

void Engine::help_on(const Handle::State& wanted, TimePoint deadline) {
  bool in_charge = false;
  const bool enough = spin(true, [&] { return wanted.has_ended() || (in_charge = token_.take()); });
  if (in_charge) return drive(wanted, deadline);
  if (!enough) wake_up_.ring();
}

void Engine::drive(const Handle::State& wanted, TimePoint deadline) {
  wake_up_.sleeps_for(Sleep::none);
  std::uint32_t seen = 0;
  Loop::Turn last;
  last.more = true;
  while (!over_ && token_.allows_help()) {
    seen = wake_up_.rings();
    last = turn(true);
    if (wanted.has_ended() || (deadline != TimePoint::max() && Clock::now() >= deadline)) break;
    if (last.more || over_) continue;
    const TimePoint until = std::min(last.next, deadline);
    if (spin_for_news(seen, &wanted)) continue;
    wake_up_.sleeps_for(sleep_now());
    if (!loop_.may_go_on()) wake_up_.wait(seen, until);
    wake_up_.sleeps_for(Sleep::none);
  }
  wake_up_.sleeps_for(sleep_now());
  const bool left = over_ || last.more || loop_.may_go_on();
  token_.give_back();
  if (left || wake_up_.rings() != seen ||
      last.next.time_since_epoch().count() < until_.load(std::memory_order_seq_cst))
    wake_up_.ring();
}

/// Spins for a moment. Returns whether there is something to do, or `wanted` has ended; if not, the thread
/// should sleep.
bool Engine::spin_for_news(std::uint32_t seen, const Handle::State* wanted) {
  return spin(loop_.crowded(), [&] {
    return wake_up_.rings() != seen || loop_.may_go_on() || (wanted != nullptr && wanted->has_ended());
  });
}

Sleep Engine::sleep_now() const { return loop_.waits_for_others() ? Sleep::peers : Sleep::any_news; }

}  // namespace hora
