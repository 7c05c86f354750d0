// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace hora {

/// The token of an engine: the thread that has it runs the loop. One thread is the engine's own; others
/// (*helpers*) take it while they wait for an operation, as long as that is allowed.
///
/// Protocol. `taken_` is true while a thread has the token. `take` is one exchange and `give_back` one store,
/// so the writes of a holder are visible to the next one. Nobody waits for the token here: a thread that does
/// not get it sleeps on the engine's wake-up (see Engine), or leaves its work to the holder.
///
///   a helper                                    a thread that forbids help
///   h1. helping_ += 1                           f1. allowed_ = false
///   h2. looks at allowed_, and leaves if not    f2. rings the wake-up (the engine does that)
///   h3. may take the token, and gives it back   f3. waits until helping_ is 0
///   h4. helping_ -= 1; notifies if not allowed_
///
/// All accesses are seq_cst. In their one order either h1 comes before f3, which waits for this helper, or f1
/// comes before h2, and the helper leaves. So after f3 no helper has the token, or will. The wait ends: a
/// helper looks at `allowed_` after each turn, it sleeps only on the wake-up that f2 rings, and a turn ends
/// without the thread that forbids. That thread must not be inside a turn itself. The notification is not
/// lost: f1 comes before the last look of f3 at `helping_`, so a helper whose h4 comes after that look finds
/// `allowed_` false.
///
/// Thread-safe.
class EngineToken {
 public:
  /// `allowed`: whether threads may help.
  explicit EngineToken(bool allowed) : allowed_(allowed) {}

  /// Whether the caller has it now.
  [[nodiscard]] bool take() { return !taken_.exchange(true, std::memory_order_seq_cst); }
  void give_back() { taken_.store(false, std::memory_order_seq_cst); }

  [[nodiscard]] bool allows_help() const { return allowed_.load(std::memory_order_seq_cst); }
  /// Whether help was allowed before: then the caller rings the wake-up.
  bool forbid_help() { return allowed_.exchange(false, std::memory_order_seq_cst); }
  /// After `forbid_help`: blocks until no helper is left.
  void await_helpers() const {
    while (const int helping = helping_.load(std::memory_order_seq_cst)) helping_.wait(helping);
  }

  /// A thread is a helper for as long as this lives.
  class Help {
   public:
    explicit Help(EngineToken& token) : token_(token) {
      token_.helping_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Help() {
      token_.helping_.fetch_sub(1, std::memory_order_seq_cst);
      if (!token_.allows_help()) token_.helping_.notify_all();
    }
    Help(const Help&) = delete;
    Help& operator=(const Help&) = delete;

   private:
    EngineToken& token_;
  };

 private:
  std::atomic<bool> taken_{false};
  std::atomic<bool> allowed_;
  std::atomic<int> helping_{0};
};

}  // namespace hora
