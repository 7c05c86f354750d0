// SPDX-License-Identifier: Apache-2.0
#include "python/native/without_lock.h"

#include <unistd.h>

namespace hora {
namespace {

[[noreturn]] void stand_still() {
  while (true) ::pause();
}

/// Its destructor runs when the thread's stack is unwound, before any other frame is left.
class StandsStillIfUnwound {
 public:
  StandsStillIfUnwound() = default;
  StandsStillIfUnwound(const StandsStillIfUnwound&) = delete;
  StandsStillIfUnwound& operator=(const StandsStillIfUnwound&) = delete;
  StandsStillIfUnwound(StandsStillIfUnwound&&) = delete;
  StandsStillIfUnwound& operator=(StandsStillIfUnwound&&) = delete;
  ~StandsStillIfUnwound() {
    if (!back_) stand_still();
  }

  void note_return() { back_ = true; }

 private:
  bool back_ = false;
};

/// A frame of its own, which may be unwound: its caller may not.
[[gnu::noinline]] void take_lock(PyThreadState* state) {
  StandsStillIfUnwound guard;
  PyEval_RestoreThread(state);
  guard.note_return();
}

}  // namespace

WithoutLock::~WithoutLock() {
  if (Py_IsInitialized() == 0) stand_still();  // there is no lock any more
  take_lock(state_);
}

}  // namespace hora
