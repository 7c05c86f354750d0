// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi/session.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace hora::mpi {
namespace {

constexpr std::chrono::seconds kEndTimeout{3};  // with ranks that may be dead

/// Keeps MPI, if Hora started it, until the process exits.
struct Keeper {
  std::mutex mutex;
  std::shared_ptr<Session> session;
};

Keeper& keeper() {
  static Keeper the_keeper;  // made before atexit() hears of let_go, and so destroyed after that has run
  return the_keeper;
}

void let_go() {
  std::shared_ptr<Session> last;
  {
    const std::lock_guard lock(keeper().mutex);
    last = std::exchange(keeper().session, nullptr);
  }
}

bool finalized() {
  int yes = 0;
  MPI_Finalized(&yes);
  return yes != 0;
}

}  // namespace

int Session::own_process() { return ::getpid(); }

Session::~Session() {
  if (!started_here_ || process_ != ::getpid() || finalized()) return;
  if (!spoilt_.load(std::memory_order_relaxed)) {
    MPI_Finalize();
    return;
  }
  const auto ended = std::make_shared<std::promise<void>>();  // outlives us, if nobody waits for it any more
  auto end = ended->get_future();
  std::thread([ended] {
    MPI_Finalize();
    ended->set_value();
  }).detach();
  end.wait_for(kEndTimeout);
}

bool mpi_runs() {
  int started = 0;
  MPI_Initialized(&started);
  return started != 0 && !finalized();
}

int thread_level() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  return level;
}

std::string library_name() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string whole(text.data(), static_cast<std::size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));  // Open MPI goes on with who built it, MPICH with how
}

std::shared_ptr<Session> enter_mpi() {
  const std::lock_guard lock(keeper().mutex);
  if (finalized()) {
    throw Error(
        Code::unavailable,
        "MPI has been ended in this process (MPI_Finalize), and cannot be started again: end it after the "
        "last use of Hora");
  }
  if (keeper().session) return keeper().session;
  if (mpi_runs()) return std::make_shared<Session>(false);
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
  keeper().session = std::make_shared<Session>(true);
  std::atexit(let_go);
  return keeper().session;
}

void check_mpi(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(Code::aborted, fmt::format("{} failed: {}", function, text.data()));
}

}  // namespace hora::mpi
