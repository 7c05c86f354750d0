// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace hora {

/// The token of an engine: the thread that has it runs the loop. One thread is the engine's own. Other
/// threads (*helpers*) take the token while they wait for an operation, as long as that is allowed.
///
/// Protocol. `taken_` is true while a thread has the token. `take` is one exchange and `give_back` one store,
/// so the writes of a holder are visible to the next one. No thread waits here for the token. A thread that
/// does not get it sleeps on the engine's wake-up (see Engine), or leaves its work to the holder.
///
///   a helper                                    a thread that forbids help
///   h1. helping_ += 1                           f1. allowed_ = false
///   h2. if allowed_ is false: goes to h4        f2. rings the wake-up (the engine does that)
///   h3. may take the token, and gives it back   f3. waits until helping_ is 0
///   h4. helping_ -= 1; notifies if not allowed_
///
/// All accesses are seq_cst. In their single order, one of two cases holds. Either h1 comes before f3, which
/// then waits for this helper; or f1 comes before h2, and the helper goes to h4. So after f3 no helper has
/// the token or can take it. The wait ends for three reasons. A helper looks at `allowed_` after each turn. A
/// helper sleeps only on the wake-up that f2 rings. A turn can end without the thread that forbids help,
/// which must not be inside a turn itself. The notification is not lost. The last look of f3 at `helping_`
/// comes after f1. So a helper whose h4 comes after that look finds `allowed_` false.
///
/// Thread-safe.
class EngineToken {
 public:
  /// `allowed`: whether threads other than the engine's own may run the loop.
  explicit EngineToken(bool allowed) : allowed_(allowed) {}

  /// Tries to take the token, and returns whether the caller has it then.
  [[nodiscard]] bool take() { return !taken_.exchange(true, std::memory_order_seq_cst); }
  void give_back() { taken_.store(false, std::memory_order_seq_cst); }

  [[nodiscard]] bool allows_help() const { return allowed_.load(std::memory_order_seq_cst); }
  /// Forbids help. Returns whether help was allowed before; the caller must then ring the wake-up.
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
