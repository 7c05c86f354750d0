// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi/bootstrap.h"

#include "core/backend/mpi/session.h"
#include "core/base/bytes.h"
#include "core/join/listener.h"
#include "core/join/network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>

#include <algorithm>
#include <thread>

namespace hora::mpi {
namespace {

constexpr std::size_t kMostText = 4096;
constexpr std::chrono::milliseconds kPause{1};

/// Waits for a request, as long as there is time.
void await(MPI_Request request, TimePoint deadline, int size) {
  int done = 0;
  for (;;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return;
    if (Clock::now() >= deadline) {
      throw Error(Code::timeout,
                  fmt::format("not all {} processes that MPI started have called init in time: look whether "
                              "each does; a longer wait is HORA_START_TIMEOUT",
                              size));
    }
    std::this_thread::sleep_for(kPause);
  }
}

/// A communicator of our own, while ranks meet.
class OwnCommunicator {
 public:
  OwnCommunicator(MPI_Comm original, TimePoint deadline) {
    int size = 0;
    MPI_Comm_size(original, &size);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Comm_idup(original, &communicator_, &request), "MPI_Comm_idup");
    await(request, deadline, size);
  }
  explicit OwnCommunicator(MPI_Comm communicator) : communicator_(communicator) {}
  OwnCommunicator(const OwnCommunicator&) = delete;
  OwnCommunicator& operator=(const OwnCommunicator&) = delete;
  ~OwnCommunicator() { MPI_Comm_free(&communicator_); }

  [[nodiscard]] MPI_Comm get() const { return communicator_; }
  [[nodiscard]] int rank() const {
    int rank = 0;
    MPI_Comm_rank(communicator_, &rank);
    return rank;
  }
  [[nodiscard]] int size() const {
    int size = 0;
    MPI_Comm_size(communicator_, &size);
    return size;
  }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

/// The ranks of this host, and, if there is a difference, the hosts' ranks with this number.
void find_host_ranks(const OwnCommunicator& all, Membership& membership) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(all.get(), MPI_COMM_TYPE_SHARED, membership.rank, MPI_INFO_NULL, &part),
            "MPI_Comm_split_type");
  const OwnCommunicator local(part);
  membership.local_rank = local.rank();
  membership.local_size = local.size();
  check_mpi(MPI_Comm_split(all.get(), membership.local_rank, membership.rank, &part), "MPI_Comm_split");
  const OwnCommunicator cross(part);
  membership.cross_rank = cross.rank();
  membership.cross_size = cross.size();
}

/// Where rank 0 listens, and its secret: into `membership`.
void open(const Config& config, Membership& membership) {
  auto listener = std::make_shared<const Descriptor>(listen_on_network(config.network));
  if (!*listener) throw Error(Code::unavailable, "rank 0 cannot listen for the other ranks on any TCP port");
  std::vector<std::string> candidates;
  for (const auto& address : own_addresses(config.network)) {
    const bool six = address.find(':') != std::string::npos;
    candidates.push_back(
        fmt::format("{}{}{}:{}", six ? "[" : "", address, six ? "]" : "", port_of(*listener)));
  }
  membership.coordinator = fmt::format("{}", fmt::join(candidates, ","));
  membership.listener = std::move(listener);
  membership.secret = config.secret;
  if (membership.secret != Secret{}) return;
  if (::getrandom(membership.secret.data(), membership.secret.size(), 0) !=
      static_cast<ssize_t>(membership.secret.size()))
    throw Error(Code::unavailable, "the system gives no random bytes for the job's secret");
}

/// The announcement of rank 0: the error, or the address where it listens and the secret. In kMostText bytes.
std::vector<std::byte> announce(const Config& config, Membership& membership) {
  Writer out;
  try {
    open(config, membership);
    out.u8(0).string(membership.coordinator).raw(std::as_bytes(std::span(membership.secret)));
    if (out.size() > kMostText)
      throw Error(Code::invalid_argument, "rank 0 has too many addresses: choose one with HORA_NETWORK");
  } catch (const Error& error) {
    out = Writer();
    out.u8(static_cast<std::uint8_t>(error.code()))
        .string(fmt::format("rank 0: {}", std::string(error.what()).substr(0, kMostText - 64)));
  }
  auto bytes = out.take();
  bytes.resize(kMostText);
  return bytes;
}

void follow(std::span<const std::byte> announced, Membership& membership) {
  Reader in(announced);
  const auto code = in.below(static_cast<std::uint64_t>(Code::internal) + 1, "a code");
  std::string text = in.string(kMostText);
  if (code != 0) throw Error(static_cast<Code>(code), std::move(text));
  membership.coordinator = std::move(text);
  const auto secret = in.raw(membership.secret.size());
  std::transform(secret.begin(), secret.end(), membership.secret.begin(),
                 [](std::byte byte) { return static_cast<unsigned char>(byte); });
}

void check_thread() {
  int is_main = 0;
  MPI_Is_thread_main(&is_main);
  if (thread_level() >= MPI_THREAD_SERIALIZED || is_main != 0) return;
  throw Error(
      Code::unavailable,
      "MPI was started for one thread only, and this is another: call Hora's init in the thread that called "
      "MPI_Init, or start MPI with MPI_Init_thread and MPI_THREAD_MULTIPLE");
}

}  // namespace

MPI_Comm communicator_of(const Config& config) {
  if (!config.mpi_communicator) return MPI_COMM_WORLD;
  MPI_Comm communicator = MPI_Comm_f2c(*config.mpi_communicator);
  int between_groups = 0;
  if (communicator == MPI_COMM_NULL || communicator == MPI_Comm{} ||
      MPI_Comm_test_inter(communicator, &between_groups) != MPI_SUCCESS || between_groups != 0) {
    throw Error(
        Code::invalid_argument,
        fmt::format("{} is no communicator of {} that this process is in (MPI_Comm_c2f gives its number)",
                    *config.mpi_communicator, library_name()));
  }
  return communicator;
}

MpiBootstrap bootstrap_by_mpi(const Config& config, TimePoint deadline) {
  if (config.mpi_communicator && !mpi_runs()) {
    throw Error(
        Code::invalid_argument,
        fmt::format(
            "a communicator was given, but {}, which libhora_mpi.so uses, has not been started: the "
            "communicator comes from another MPI library. Build that which made it (mpi4py, as a rule) "
            "and Hora with the same MPI",
            library_name()));
  }
  const auto session = enter_mpi();
  check_thread();
  const OwnCommunicator all(communicator_of(config), deadline);
  MpiBootstrap bootstrap;
  MPI_Comm_size(MPI_COMM_WORLD, &bootstrap.started);
  Membership& membership = bootstrap.membership;
  membership.rank = all.rank();
  membership.size = all.size();
  find_host_ranks(all, membership);
  std::vector<std::byte> announced(kMostText);
  if (membership.rank == 0) announced = announce(config, membership);
  check_mpi(MPI_Bcast(announced.data(), static_cast<int>(announced.size()), MPI_BYTE, 0, all.get()),
            "MPI_Bcast");
  follow(announced, membership);
  return bootstrap;
}

}  // namespace hora::mpi
