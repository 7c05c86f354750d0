// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace hora {

/// As long as it lives, this thread is without the interpreter lock.
///
/// A daemon thread may come back when the interpreter ends or has ended. Python before 3.14 then ends the
/// thread in the call that takes the lock (pthread_exit), which unwinds its stack; a destructor must not be
/// left so, and std::terminate would end the process with a status of its own. So such a thread stands still
/// for ever, as it does in later Pythons.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;
  WithoutLock(WithoutLock&&) = delete;
  WithoutLock& operator=(WithoutLock&&) = delete;
  ~WithoutLock();

 private:
  PyThreadState* state_;
};

}  // namespace hora
