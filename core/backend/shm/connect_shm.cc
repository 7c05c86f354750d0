// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/connect_shm.h"

#include "core/backend/shm/arena.h"
#include "core/base/rank_assignment.h"
#include "core/base/bytes.h"
#include "core/base/log.h"
#include "core/base/machine.h"
#include "core/base/thread.h"
#include "core/join/exchange.h"
#include "core/join/handshake.h"
#include "core/join/local_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>

namespace hora::shm {
namespace {

constexpr std::size_t kMostName = 100;
constexpr std::size_t kLeastRegion = std::size_t{1} << 30;
constexpr std::size_t kMostInAll = std::size_t{1} << 45;  // of 2^47 bytes of address space
constexpr std::chrono::seconds kHandshakeTime(5);         // for which a silent process can hold up the others

/// The outcome of each rank's attempt, by rank, on all ranks; this rank makes its own attempt. A failed
/// attempt is logged on its rank.
std::vector<bool> who_can(Control& control, TimePoint deadline, const char* what,
                          const std::function<void()>& attempt) {
  bool mine = true;
  try {
    attempt();
  } catch (const Error& error) {
    log(LogLevel::info, fmt::format("no shared memory with other ranks: {}: {}", what, error.what()));
    mine = false;
  }
  const std::byte mark{mine ? std::uint8_t{1} : std::uint8_t{0}};
  std::vector<bool> can;
  for (const auto& told : exchange(control, {&mark, 1}, deadline)) can.push_back(told == Bytes{std::byte{1}});
  return can;
}

/// The properties that are equal on ranks that may share a host: the running system, the network namespace,
/// and the user. Local sockets have their names in the network namespace. Equal hints prove nothing.
std::string hint() {
  struct stat network{};
  if (::stat("/proc/self/ns/net", &network) != 0) network = {};
  return fmt::format("{} {}:{} {}", boot_id(), network.st_dev, network.st_ino, ::geteuid());
}

using Groups = std::vector<std::vector<int>>;

/// Ranks by what they tell, each group ascending, groups by their lowest rank.
Groups group_by(const std::vector<Bytes>& told) {
  std::map<Bytes, std::size_t> group_of;
  Groups groups;
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    const auto [at, is_new] = group_of.try_emplace(told[rank], groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(static_cast<int>(rank));
  }
  return groups;
}

/// The groups without the ranks that cannot; each of those is one of its own.
Groups set_apart(const Groups& groups, const std::vector<bool>& can) {
  Groups smaller;
  for (const auto& group : groups) {
    std::vector<int> rest;
    for (const int rank : group) {
      if (can[static_cast<std::size_t>(rank)]) {
        rest.push_back(rank);
      } else {
        smaller.push_back({rank});
      }
    }
    if (!rest.empty()) smaller.push_back(std::move(rest));
  }
  std::sort(smaller.begin(), smaller.end());  // by their lowest ranks
  return smaller;
}

/// The same, where one rank that cannot spoils it for its group.
Groups dissolve(const Groups& groups, std::vector<bool> can) {
  for (const auto& group : groups) {
    const bool all = std::all_of(group.begin(), group.end(),
                                 [&](int rank) { return can[static_cast<std::size_t>(rank)]; });
    for (const int rank : group) can[static_cast<std::size_t>(rank)] = all;
  }
  return set_apart(groups, can);
}

const std::vector<int>& group_with(const Groups& groups, int rank) {
  return *std::find_if(groups.begin(), groups.end(), [rank](const auto& group) {
    return std::find(group.begin(), group.end(), rank) != group.end();
  });
}

bool all_alone(const Groups& groups) {
  return std::all_of(groups.begin(), groups.end(), [](const auto& group) { return group.size() == 1; });
}

std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  std::string name = "hora-";
  for (const auto byte : bytes) name += fmt::format("{:02x}", byte);
  return name;
}

std::size_t region_bytes(const Config& config, std::size_t ranks) {
  if (config.arena_size != 0) return (config.arena_size + kPage - 1) / kPage * kPage;
  const auto memory =
      static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return std::max(kLeastRegion, std::min(memory, kMostInAll / ranks / kPage * kPage));
}

/// The message of a group's lowest rank to the others about the arena that it has made; without a name if it
/// has made none. A value.
struct Invitation {
  std::string socket;
  std::size_t region = 0;
};

/// The invitation of the lowest rank of this rank's group.
Invitation invite(Control& control, const Invitation& mine, int host, TimePoint deadline) {
  const auto told = exchange(control, Writer().string(mine.socket).u64(mine.region).take(), deadline);
  Reader in(told[static_cast<std::size_t>(host)]);
  Invitation invitation;
  invitation.socket = in.string(kMostName);
  invitation.region = in.below(std::uint64_t{1} << 46, "the size of an arena");
  in.finish();
  return invitation;
}

/// The rank that a group's lowest rank has let in: another rank of the group, run by the same user. Throws
/// Error if the process is any other.
int admit(const Descriptor& socket, const Membership& membership, const std::vector<int>& group,
          TimePoint deadline) {
  if (user_of(socket) != ::geteuid()) throw Error(Code::invalid_argument, "it comes from another user");
  const Hello hello =
      welcome(socket.fd(), membership.secret, std::min(deadline, Clock::now() + kHandshakeTime)).hello;
  if (hello.role != Role::arena || hello.size != membership.size || hello.rank == membership.rank ||
      std::find(group.begin(), group.end(), hello.rank) == group.end()) {
    throw Error(Code::invalid_argument,
                fmt::format("rank {} of {} is none of this arena", hello.rank, hello.size));
  }
  return hello.rank;
}

/// Hands the file to every other rank of the group; other processes are refused.
void hand_out(const Descriptor& listener, const Descriptor& file, const Membership& membership,
              const std::vector<int>& group, TimePoint deadline) {
  std::set<int> served;
  bool told = false;
  while (served.size() + 1 < group.size()) {
    const Descriptor socket = accept_local(listener, deadline);
    try {
      const int rank = admit(socket, membership, group, deadline);
      if (served.insert(rank).second) send_descriptor(socket, file, deadline);
    } catch (const Error& error) {
      if (std::exchange(told, true)) continue;  // once is enough
      log(LogLevel::warning,
          fmt::format("refused a connection to this job's local socket: {}", error.what()));
    }
  }
}

/// The lowest rank's thread that hands the file out while the ranks come. Other processes could fill the
/// queue of a listener that nobody serves, and then a rank could not even connect. So the thread serves the
/// listener from the start, until all ranks have the file or this object is destroyed.
class ArenaFileServer {
 public:
  ArenaFileServer(const Descriptor& listener, const Descriptor& file, const Membership& membership,
                  const std::vector<int>& group, TimePoint deadline)
      : listener_(listener),
        thread_(start_thread("hands out shared memory", [&listener, &file, &membership, &group, deadline] {
          try {
            hand_out(listener, file, membership, group, deadline);
          } catch (const Error& error) {
            log(LogLevel::info, fmt::format("no longer waiting at the local socket: {}", error.what()));
          }
        })) {}
  ArenaFileServer(const ArenaFileServer&) = delete;
  ArenaFileServer& operator=(const ArenaFileServer&) = delete;
  ~ArenaFileServer() {
    ::shutdown(listener_.fd(), SHUT_RDWR);  // wakes it, if it still waits for somebody
    thread_.join();
  }

 private:
  const Descriptor& listener_;
  std::thread thread_;
};

/// The private memory of this host's ranks, if it is in reach from everywhere on it.
std::unique_ptr<PeerMemory> access_out(Control& control, const Config& config, const std::vector<int>& host,
                                       TimePoint deadline) {
  std::uint64_t probe = kProbe;
  if (config.peer_memory.value_or(true))
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // else Yama refuses it to other processes
  Writer out;
  out.u64(static_cast<std::uint64_t>(::getpid())).u64(reinterpret_cast<std::uint64_t>(&probe));
  const auto told = exchange(control, out.take(), deadline);
  std::vector<int> pids;
  std::vector<std::uint64_t> probes;
  for (const int rank : host) {
    Reader in(told[static_cast<std::size_t>(rank)]);
    pids.push_back(static_cast<int>(in.below(std::uint64_t{1} << 31, "a process id")));
    probes.push_back(in.u64());
    in.finish();
  }
  std::unique_ptr<PeerMemory> memory;
  const auto reached = who_can(control, deadline, "reaching private memory", [&] {
    if (!config.peer_memory.value_or(true)) throw Error(Code::unavailable, "HORA_PEER_MEMORY=0");
    memory = make_process_memory(pids, probes);
    if (!memory)
      throw Error(Code::unavailable, "process_vm_readv is not permitted; private buffers take one more copy");
  });
  const bool all = std::all_of(host.begin(), host.end(),
                               [&](int rank) { return reached[static_cast<std::size_t>(rank)]; });
  return all ? std::move(memory) : nullptr;
}

/// The arena's file, mapped, and how it is divided.
struct Passed {
  std::shared_ptr<const Mapping> mapping;
  std::size_t region = 0;
};

/// The lowest rank of each group makes a file and passes it to the others; the groups become the ranks that
/// have it. Returns the file that this rank got, if it got one.
std::optional<Passed> pass_on(const World& world, const Config& config, Groups& groups, TimePoint deadline) {
  Control& control = *world.control;
  const std::vector<int> group = group_with(groups, world.membership.rank);
  const bool makes = group.size() > 1 && group.front() == world.membership.rank;
  Invitation invitation;
  Descriptor listener;
  Descriptor file;
  try {
    if (makes) {
      const std::size_t region = region_bytes(config, group.size());
      file = Arena::create_file(static_cast<int>(group.size()), region);
      const std::string name = random_name();
      listener = listen_local(name);
      invitation = {name, region};
    }
  } catch (const Error& error) {
    log(LogLevel::info, fmt::format("no shared memory: making the arena: {}", error.what()));
  }
  invitation = invite(control, invitation, group.front(), deadline);

  std::optional<Passed> passed;
  std::optional<ArenaFileServer> server;
  if (makes && !invitation.socket.empty()) server.emplace(listener, file, world.membership, group, deadline);
  const auto can = who_can(control, deadline, "passing on the arena", [&] {
    if (group.size() == 1) return;
    if (invitation.socket.empty()) throw Error(Code::unavailable, "there is none");
    Descriptor mine;
    if (!makes) {
      const Descriptor socket = connect_local(invitation.socket);
      greet(socket.fd(), world.membership.secret, {Role::arena, world.membership.rank, world.membership.size},
            deadline);
      mine = receive_descriptor(socket, deadline);
    } else {
      mine = Descriptor(::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0));
    }
    const auto bytes = Arena::file_bytes(static_cast<int>(group.size()), invitation.region);
    passed = Passed{std::make_shared<const Mapping>(std::move(mine), bytes), invitation.region};
  });
  groups = set_apart(groups, can);
  return passed;
}

/// The arena of this rank, and how it reaches the private memory of the others there.
struct KeptArena final : HostMemory {
  KeptArena(std::shared_ptr<Arena> all, std::shared_ptr<PeerMemory> reached)
      : arena(std::move(all)), peers(std::move(reached)) {}

  std::shared_ptr<Arena> arena;
  std::shared_ptr<PeerMemory> peers;
};

/// The message of each rank about the arena that it has kept from the former generation. A value.
struct Kept {
  std::string file;  ///< by which ranks know that they have kept the same one; empty: none is kept
  int rank = 0;      ///< of this rank in that arena
  std::size_t block = 0;
};

Bytes encode(const Kept& kept) {
  return Writer().string(kept.file).u64(static_cast<std::uint64_t>(kept.rank)).u64(kept.block).take();
}

Kept decode_kept(const Bytes& bytes) {
  Reader in(bytes);
  Kept kept;
  kept.file = in.string(kMostName);
  kept.rank = static_cast<int>(in.below(kMostRanks, "a rank of an arena"));
  kept.block = in.u64();
  in.finish();
  return kept;
}

/// The groups whose ranks have all kept the same arena. A value.
struct GoingOn {
  Groups groups;
  std::optional<SharedHost> own;  ///< of this rank's group, if it is one of them

  [[nodiscard]] bool contains(int rank) const {
    return std::any_of(groups.begin(), groups.end(), [rank](const auto& group) {
      return std::find(group.begin(), group.end(), rank) != group.end();
    });
  }
};

/// Finds the groups that go on with the arena of the former generation. All ranks call it.
GoingOn find_going_on(const World& world, const Groups& groups, TimePoint deadline) {
  const auto* former = dynamic_cast<const KeptArena*>(world.host_memory.get());
  std::shared_ptr<RankBlock> own;
  Kept mine;
  try {
    if (former != nullptr) {
      own = former->arena->take_block();
      tell(own->roll.cores);  // before any of them can look at it
      mine = {former->arena->file_name(), former->arena->rank(), former->arena->offset_of(*own)};
    }
  } catch (const Error& error) {
    log(LogLevel::info, fmt::format("shared memory is made anew: {}", error.what()));
  }
  std::vector<Kept> kept;
  for (const auto& told : exchange(*world.control, encode(mine), deadline)) kept.push_back(decode_kept(told));
  const auto of = [&](int rank) -> const Kept& { return kept[static_cast<std::size_t>(rank)]; };
  GoingOn going_on;
  for (const auto& group : groups) {
    const std::string& file = of(group.front()).file;
    const bool same =
        std::all_of(group.begin(), group.end(), [&](int rank) { return of(rank).file == file; });
    if (group.size() == 1 || file.empty() || !same) continue;
    going_on.groups.push_back(group);
    const auto place = std::find(group.begin(), group.end(), world.membership.rank) - group.begin();
    if (place == static_cast<std::ptrdiff_t>(group.size())) continue;
    std::vector<int> ranks;
    std::vector<std::uint64_t> blocks;
    for (const int rank : group) {
      ranks.push_back(of(rank).rank);
      blocks.push_back(of(rank).block);
    }
    going_on.own = {Communicator(former->arena, static_cast<int>(place), ranks, blocks, std::move(own)),
                    former->peers};
  }
  return going_on;
}

/// Lets the ranks of each group share a new arena. The groups become the ranks that do.
std::optional<SharedHost> share_new_arena(World& world, const Config& config, Groups& groups,
                                          TimePoint deadline) {
  if (all_alone(groups)) return std::nullopt;
  const auto passed = pass_on(world, config, groups, deadline);
  if (all_alone(groups)) return std::nullopt;
  Control& control = *world.control;
  std::shared_ptr<Arena> arena;
  const auto can = who_can(control, deadline, "taking a rank block of the arena", [&] {
    const auto& group = group_with(groups, world.membership.rank);
    if (group.size() == 1) return;
    const auto place = std::find(group.begin(), group.end(), world.membership.rank) - group.begin();
    arena =
        Arena::make(passed->mapping, static_cast<int>(place), static_cast<int>(group.size()), passed->region);
    // Before any of them hears that all have a rank block.
    tell(arena->block(static_cast<int>(place)).roll.cores);
  });
  groups = dissolve(groups, can);
  const auto& group = group_with(groups, world.membership.rank);
  std::shared_ptr<PeerMemory> peers = access_out(control, config, group, deadline);
  if (group.size() == 1) return std::nullopt;
  world.host_memory = std::make_shared<KeptArena>(arena, peers);
  return SharedHost{Communicator(arena, arena->rank(), static_cast<int>(group.size())), std::move(peers)};
}

}  // namespace

SharedHosts share_hosts(World& world, const Config& config, TimePoint deadline) {
  const std::string mine = hint();
  const Groups groups = group_by(exchange(*world.control, std::as_bytes(std::span(mine)), deadline));
  if (all_alone(groups)) return {groups, {}};
  GoingOn going_on = find_going_on(world, groups, deadline);
  std::vector<bool> needs_arena;  // the others are alone here, and take part in what all ranks have to call
  for (int rank = 0; rank < world.membership.size; ++rank) needs_arena.push_back(!going_on.contains(rank));
  Groups fresh = set_apart(groups, needs_arena);
  auto own = share_new_arena(world, config, fresh, deadline);
  if (going_on.own) own = std::move(going_on.own);
  Groups all = going_on.groups;
  for (auto& group : fresh) {
    if (!going_on.contains(group.front())) all.push_back(std::move(group));
  }
  std::sort(all.begin(), all.end());  // by their lowest ranks
  return {std::move(all), std::move(own)};
}

}  // namespace hora::shm
