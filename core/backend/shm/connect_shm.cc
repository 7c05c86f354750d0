// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/connect_shm.h"

#include "core/backend/shm/local_socket.h"
#include "core/backend/shm/shm_collective.h"
#include "core/base/bytes.h"
#include "core/base/log.h"
#include "core/comm/exchange.h"
#include "core/comm/handshake.h"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <thread>
#include <utility>

namespace hora {
namespace {

constexpr std::size_t kMostName = 100;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kLeastRegion = std::size_t{1} << 30;
constexpr std::size_t kMostInAll = std::size_t{1} << 45;  // of 2^47 bytes of address space
constexpr std::chrono::seconds kHandshakeTime(5);         // what a stranger who says nothing can hold up

/// Whether something holds on every rank. What a rank fails to do is logged there, and means no.
bool all_can(Control& control, TimePoint deadline, const char* what, const std::function<void()>& attempt) {
  bool mine = true;
  try {
    attempt();
  } catch (const Error& error) {
    log(LogLevel::info, fmt::format("no shared memory between all ranks: {}: {}", what, error.what()));
    mine = false;
  }
  const std::byte mark{mine ? std::uint8_t{1} : std::uint8_t{0}};
  bool all = true;
  for (const auto& told : exchange(control, {&mark, 1}, deadline)) all = all && told == Bytes{std::byte{1}};
  return all;
}

std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  std::string name = "hora-";
  for (const auto byte : bytes) name += fmt::format("{:02x}", byte);
  return name;
}

std::size_t region_bytes(const Config& config) {
  if (config.arena_size != 0) return (config.arena_size + kPage - 1) / kPage * kPage;
  const auto memory =
      static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return std::max(kLeastRegion,
                  std::min(memory, kMostInAll / static_cast<std::size_t>(config.size) / kPage * kPage));
}

/// What rank 0 tells the others about the arena that it has made. A value.
struct Invitation {
  std::string socket;
  std::size_t region = 0;
};

Invitation invite(Control& control, const Invitation& mine, TimePoint deadline) {
  Writer out;
  if (control.rank() == 0) out.string(mine.socket).u64(mine.region);
  const auto told = exchange(control, out.take(), deadline);
  Reader in(told.front());
  Invitation invitation;
  invitation.socket = in.string(kMostName);
  invitation.region = in.below(std::uint64_t{1} << 46, "the size of an arena");
  in.finish();
  return invitation;
}

/// Whom rank 0 has let in: another rank of this job, run by the same user. Throws Error if it is somebody
/// else.
int admit(const Descriptor& socket, const Config& config, TimePoint deadline) {
  if (user_of(socket) != ::geteuid()) throw Error(Code::invalid_argument, "it comes from another user");
  const Hello hello = welcome(socket.fd(), config.secret, std::min(deadline, Clock::now() + kHandshakeTime));
  if (hello.role != Role::arena || hello.size != config.size || hello.rank <= 0 ||
      hello.rank >= config.size) {
    throw Error(Code::invalid_argument,
                fmt::format("rank {} of {} is none of this arena", hello.rank, hello.size));
  }
  return hello.rank;
}

/// Rank 0: hands the file to every other rank; strangers are turned away.
void hand_out(const Descriptor& listener, const Descriptor& file, const Config& config, TimePoint deadline) {
  std::set<int> served;
  bool told = false;
  while (served.size() + 1 < static_cast<std::size_t>(config.size)) {
    const Descriptor socket = accept_local(listener, deadline);
    try {
      const int rank = admit(socket, config, deadline);
      if (served.insert(rank).second) send_descriptor(socket, file, deadline);
    } catch (const Error& error) {
      if (std::exchange(told, true)) continue;  // once is enough
      log(LogLevel::warning,
          fmt::format("refused a connection to this job's local socket: {}", error.what()));
    }
  }
}

/// Rank 0's thread that hands the file out while the ranks come. Strangers fill the queue of a listener that
/// nobody serves, and then a rank cannot even connect; so it is served from the start, until all have the
/// file or it ends.
class Doorman {
 public:
  Doorman(const Descriptor& listener, const Descriptor& file, const Config& config, TimePoint deadline)
      : listener_(listener), thread_([&listener, &file, &config, deadline] {
          try {
            hand_out(listener, file, config, deadline);
          } catch (const Error& error) {
            log(LogLevel::info, fmt::format("no longer waiting at the local socket: {}", error.what()));
          }
        }) {}
  Doorman(const Doorman&) = delete;
  Doorman& operator=(const Doorman&) = delete;
  ~Doorman() {
    ::shutdown(listener_.fd(), SHUT_RDWR);  // wakes it, if it still waits for somebody
    thread_.join();
  }

 private:
  const Descriptor& listener_;
  std::thread thread_;
};

/// The private memory of all ranks, if it is in reach from everywhere.
std::unique_ptr<PeerMemory> reach_out(Control& control, const Config& config, TimePoint deadline) {
  std::uint64_t probe = kProbe;
  if (config.peer_memory)
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // else Yama refuses it to other processes
  Writer out;
  out.u64(static_cast<std::uint64_t>(::getpid())).u64(reinterpret_cast<std::uint64_t>(&probe));
  std::vector<int> pids;
  std::vector<std::uint64_t> probes;
  for (const auto& told : exchange(control, out.take(), deadline)) {
    Reader in(told);
    pids.push_back(static_cast<int>(in.below(std::uint64_t{1} << 31, "a process id")));
    probes.push_back(in.u64());
    in.finish();
  }
  std::unique_ptr<PeerMemory> memory;
  const bool reached = all_can(control, deadline, "reaching private memory", [&] {
    if (!config.peer_memory) throw Error(Code::unavailable, "HORA_PEER_MEMORY=0");
    memory = make_process_memory(pids, probes);
    if (!memory)
      throw Error(Code::unavailable, "process_vm_readv is not permitted; private buffers take one more copy");
  });
  return reached ? std::move(memory) : nullptr;
}

}  // namespace

std::optional<SharedHost> share_host(Control& control, const Config& config, TimePoint deadline) {
  Invitation invitation;
  Descriptor listener;
  Descriptor file;
  const bool made = all_can(control, deadline, "making the arena", [&] {
    if (control.rank() != 0) return;
    invitation = {random_name(), region_bytes(config)};
    file = Arena::create_file(config.size, invitation.region);
    listener = listen_local(invitation.socket);
  });
  if (!made) return std::nullopt;
  invitation = invite(control, invitation, deadline);

  std::optional<Doorman> doorman;
  if (control.rank() == 0) doorman.emplace(listener, file, config, deadline);
  const bool passed_on = all_can(control, deadline, "passing on the arena", [&] {
    if (control.rank() == 0) return;
    const Descriptor socket = connect_local(invitation.socket);
    greet(socket.fd(), config.secret, {Role::arena, config.rank, config.size}, deadline);
    file = receive_descriptor(socket, deadline);
  });
  doorman.reset();
  if (!passed_on) return std::nullopt;

  std::shared_ptr<Arena> arena;
  const bool mapped = all_can(control, deadline, "mapping the arena", [&] {
    const auto bytes = Arena::file_bytes(config.size, invitation.region);
    arena = Arena::make(std::make_shared<const Mapping>(std::move(file), bytes), config.rank, config.size,
                        invitation.region);
  });
  if (!mapped) return std::nullopt;
  return SharedHost{std::move(arena), reach_out(control, config, deadline)};
}

std::unique_ptr<Collective> connect_shm(Control& control, const Config& config, TimePoint deadline) {
  auto host = share_host(control, config, deadline);
  if (!host) return nullptr;
  return make_shm_collective(std::move(host->arena), config.rank, config.size, std::move(host->peers));
}

}  // namespace hora
