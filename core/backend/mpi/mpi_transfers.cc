// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi/mpi_transfers.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

namespace hora::mpi {
namespace {

constexpr int kTag = 0;

}  // namespace

Channel::Channel(std::shared_ptr<Session> session, MPI_Comm communicator, std::size_t most_bytes)
    : session_(std::move(session)), communicator_(communicator), most_bytes_(most_bytes) {
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
}

Channel::~Channel() {
  if (!aborted_.load(std::memory_order_acquire) && mpi_runs()) MPI_Comm_free(&communicator_);
}

int Channel::rank() const {
  int rank = 0;
  MPI_Comm_rank(communicator_, &rank);
  return rank;
}

int Channel::ranks() const {
  int ranks = 0;
  MPI_Comm_size(communicator_, &ranks);
  return ranks;
}

void Channel::abort(const Status& why) noexcept {
  const std::lock_guard lock(mutex_);
  if (aborted_.load(std::memory_order_relaxed)) return;
  why_ = why;
  session_->spoil();
  aborted_.store(true, std::memory_order_release);
}

void Channel::check() {
  if (aborted_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    throw Error(why_);
  }
  if (!mpi_runs()) {
    throw Error(Code::aborted,
                "the program has ended MPI (MPI_Finalize) while Hora still used it: shut Hora down first");
  }
}

void MpiTransfers::send(int to, const void* data, std::size_t bytes) {
  const auto* next = static_cast<const std::byte*>(data);
  for (std::size_t sent = 0; sent < bytes; sent += channel_.most_bytes())
    start_send(to, next + sent, std::min(channel_.most_bytes(), bytes - sent));
}

void MpiTransfers::receive(int from, void* data, std::size_t bytes) {
  auto* next = static_cast<std::byte*>(data);
  for (std::size_t received = 0; received < bytes; received += channel_.most_bytes())
    start_receive(from, next + received, std::min(channel_.most_bytes(), bytes - received));
}

void MpiTransfers::start_send(int to, const void* data, std::size_t bytes) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, kTag, channel_.communicator(), &request),
            "MPI_Isend");
  requests_.push_back(request);
  expected_.push_back({-1, bytes});
}

void MpiTransfers::start_receive(int from, void* data, std::size_t bytes) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, kTag, channel_.communicator(), &request),
            "MPI_Irecv");
  requests_.push_back(request);
  expected_.push_back({from, bytes});
}

void MpiTransfers::wait() {
  try {
    channel_.check();
    while (!test()) {
      channel_.check();
      ::sched_yield();  // costs next to nothing on a core of one's own, and milliseconds less on a shared one
    }
    check_lengths();
  } catch (const Error&) {
    give_up();
    throw;
  }
  channel_.moved();
  requests_.clear();
  expected_.clear();
}

bool MpiTransfers::test() {
  statuses_.resize(requests_.size());
  int done = 0;
  const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data());
  if (code != MPI_ERR_IN_STATUS) {
    check_mpi(code, "MPI_Testall");
    return done != 0;
  }
  for (std::size_t i = 0; i < statuses_.size(); ++i) {
    if (statuses_[i].MPI_ERROR == MPI_ERR_PENDING || statuses_[i].MPI_ERROR == MPI_SUCCESS) continue;
    int kind = MPI_SUCCESS;
    MPI_Error_class(statuses_[i].MPI_ERROR, &kind);
    if (kind != MPI_ERR_TRUNCATE) check_mpi(statuses_[i].MPI_ERROR, "MPI_Testall");
    throw Error(Code::internal,
                fmt::format("ranks {} and {} make different calls: {} bytes were expected, and more came",
                            channel_.rank(), expected_[i].from, expected_[i].bytes));
  }
  return false;
}

void MpiTransfers::check_lengths() {
  for (std::size_t i = 0; i < statuses_.size(); ++i) {
    int bytes = 0;
    if (expected_[i].from < 0) continue;
    MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes);
    if (static_cast<std::size_t>(bytes) == expected_[i].bytes) continue;
    throw Error(Code::internal,
                fmt::format("ranks {} and {} make different calls: {} bytes were expected, and {} came",
                            channel_.rank(), expected_[i].from, expected_[i].bytes, bytes));
  }
}

/// Takes back what nobody has answered yet, so that nothing is written to the memory when its owner has it
/// again; only what MPI is just moving may still come.
void MpiTransfers::give_up() noexcept {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL || !mpi_runs()) continue;
    if (expected_[i].from >= 0) MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
  requests_.clear();
  expected_.clear();
}

}  // namespace hora::mpi
