// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>

namespace hora::mpi {

// MPI can be started and ended once in a process, so it belongs to the process and not to a Runtime: this is
// the one place in Hora with state of that kind.
//
// If the program has called MPI_Init, it also calls MPI_Finalize, after the end of its last Runtime. Else
// Hora starts MPI when a Runtime first wants it, and keeps it for later ones. It is ended when the process is
// at its exit *and* the last collective is gone, whichever comes later: a Runtime that is a static object may
// be destroyed before or after the handler of atexit() runs, depending on which was there first, and its
// engine may be in MPI until then. A forked child never ends it.
//
// MPI_Finalize waits for all ranks. After a failure one of them may be dead: mpirun then ends the others by
// itself, but other launchers may not. So it runs on a thread of its own then, which is given up after a few
// seconds; without it at all mpirun would take a rank that ends with an error for one that crashed.

/// This process's use of MPI; shared by all who need it running. Thread-safe.
class Session {
 public:
  explicit Session(bool started_here) : started_here_(started_here) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// Another rank may be dead: the end does not wait for all for long.
  void spoil() noexcept { spoilt_.store(true, std::memory_order_relaxed); }

 private:
  bool started_here_;
  int process_ = own_process();
  std::atomic<bool> spoilt_ = false;

  static int own_process();
};

/// The session of this process, which starts MPI if need be. Throws Error(unavailable) if MPI has been ended
/// already, or cannot be started.
[[nodiscard]] std::shared_ptr<Session> enter_mpi();

/// Whether MPI is running.
[[nodiscard]] bool mpi_runs();

/// MPI's level of thread support, as MPI_Query_thread gives it. MPI runs.
[[nodiscard]] int thread_level();

/// "Open MPI v4.1.4". Also before MPI is started.
[[nodiscard]] std::string library_name();

/// Throws Error(aborted) with MPI's own words if `code`, of the named function, is not MPI_SUCCESS.
void check_mpi(int code, const char* function);

}  // namespace hora::mpi
