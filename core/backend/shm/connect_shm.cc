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
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
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

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

const std::vector<int>& group_with(const Groups& groups, int rank) {
  return *std::find_if(groups.begin(), groups.end(),
                       [rank](const auto& group) { return contains(group, rank); });
}

int place_in(const std::vector<int>& group, int rank) {
  return static_cast<int>(std::find(group.begin(), group.end(), rank) - group.begin());
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

/// How many ranks there can be in a new arena. In an elastic job others come while some that have left still
/// use its memory.
int arena_ranks(const Config& config, std::size_t group) {
  constexpr int kRoom = 2;
  const auto ranks = static_cast<int>(group);
  return config.member_fd ? kRoom * ranks : ranks;
}

/// The process that was last at a rank of an arena. A value.
struct Occupant {
  int process = 0;          ///< 0: none was there, or its memory was given back
  std::uint64_t since = 0;  ///< the generation that has noted it; the latest counts
};

void put(Writer& out, const std::vector<Occupant>& occupants) {
  out.u64(occupants.size());
  for (const auto& each : occupants) out.u64(static_cast<std::uint64_t>(each.process)).u64(each.since);
}

std::vector<Occupant> take_occupants(Reader& in) {
  std::vector<Occupant> occupants(in.below(kMostRanks, "a number of ranks"));
  for (auto& each : occupants) {
    each.process = static_cast<int>(in.below(std::uint64_t{1} << 31, "a process id"));
    each.since = in.u64();
  }
  return occupants;
}

/// The message of the rank that has a group's arena to the others of the group. A value.
struct Invitation {
  std::string socket;  ///< empty: there is no arena
  int ranks = 0;       ///< of the arena
  std::size_t region = 0;
  bool kept = false;                ///< it is the arena of the former generation
  std::vector<int> numbers;         ///< the rank in the arena of each rank of the group
  std::vector<Occupant> occupants;  ///< see KeptArena
};

Bytes encode(const Invitation& invitation) {
  Writer out;
  out.string(invitation.socket).u64(static_cast<std::uint64_t>(invitation.ranks)).u64(invitation.region);
  out.u64(invitation.kept ? 1 : 0);
  out.u64(invitation.numbers.size());
  for (const int number : invitation.numbers) out.u64(static_cast<std::uint64_t>(number));
  put(out, invitation.occupants);
  return out.take();
}

Invitation decode_invitation(const Bytes& bytes, std::size_t group) {
  Reader in(bytes);
  Invitation invitation;
  invitation.socket = in.string(kMostName);
  invitation.ranks = static_cast<int>(in.below(kMostRanks, "the number of ranks of an arena"));
  invitation.region = in.below(std::uint64_t{1} << 46, "the size of an arena");
  invitation.kept = in.below(2, "whether an arena was kept") == 1;
  const auto ranks = static_cast<std::uint64_t>(invitation.ranks);
  invitation.numbers.resize(in.below(kMostRanks, "a number of ranks"));
  for (int& number : invitation.numbers) number = static_cast<int>(in.below(ranks, "a rank of an arena"));
  invitation.occupants = take_occupants(in);
  in.finish();
  const bool fits = invitation.numbers.size() == group && invitation.occupants.size() == ranks;
  if (!invitation.socket.empty() && !fits) throw Error(Code::internal, "an arena for other ranks");
  return invitation;
}

/// The invitation of one rank of this rank's group. All ranks call it.
Invitation invite(Control& control, const Invitation& mine, int giver, std::size_t group,
                  TimePoint deadline) {
  const auto told = exchange(control, encode(mine), deadline);
  return decode_invitation(told[static_cast<std::size_t>(giver)], group);
}

/// The rank that was let in: one of these, run by the same user. Throws Error if the process is any other.
int admit(const Descriptor& socket, const Membership& membership, const std::vector<int>& receivers,
          TimePoint deadline) {
  if (user_of(socket) != ::geteuid()) throw Error(Code::invalid_argument, "it comes from another user");
  const Hello hello =
      welcome(socket.fd(), membership.secret, std::min(deadline, Clock::now() + kHandshakeTime)).hello;
  if (hello.role != Role::arena || hello.size != membership.size || !contains(receivers, hello.rank)) {
    throw Error(Code::invalid_argument,
                fmt::format("rank {} of {} is none of this arena", hello.rank, hello.size));
  }
  return hello.rank;
}

/// Hands the file to these ranks; other processes are refused.
void hand_out(const Descriptor& listener, const Descriptor& file, const Membership& membership,
              const std::vector<int>& receivers, TimePoint deadline) {
  std::set<int> served;
  bool told = false;
  while (served.size() < receivers.size()) {
    const Descriptor socket = accept_local(listener, deadline);
    try {
      const int rank = admit(socket, membership, receivers, deadline);
      if (served.insert(rank).second) send_descriptor(socket, file, deadline);
    } catch (const Error& error) {
      if (std::exchange(told, true)) continue;  // once is enough
      log(LogLevel::warning,
          fmt::format("refused a connection to this job's local socket: {}", error.what()));
    }
  }
}

/// The thread that hands the file out while the ranks come. Other processes could fill the queue of a
/// listener that nobody serves, and then a rank could not even connect. So the thread serves the listener
/// from the start, until all ranks have the file or this object is destroyed.
class ArenaFileServer {
 public:
  ArenaFileServer(const Descriptor& listener, const Descriptor& file, const Membership& membership,
                  const std::vector<int>& receivers, TimePoint deadline)
      : listener_(listener),
        thread_(
            start_thread("hands out shared memory", [&listener, &file, &membership, &receivers, deadline] {
              try {
                hand_out(listener, file, membership, receivers, deadline);
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

/// The arena of this rank, and how it reaches the private memory of the others there.
struct KeptArena final : HostMemory {
  std::shared_ptr<Arena> arena;
  std::shared_ptr<PeerMemory> peers;
  std::vector<Occupant> occupants;  // by rank of the arena

  [[nodiscard]] Occupant& at(int number) { return occupants[static_cast<std::size_t>(number)]; }
};

std::vector<int> processes_of(const std::vector<Occupant>& occupants) {
  std::vector<int> processes;
  for (const auto& each : occupants) processes.push_back(each.process);
  return processes;
}

/// The private memory of the ranks of this host, if it is in reach from everywhere on it. `numbers`: their
/// ranks in the arena. Notes their processes.
std::unique_ptr<PeerMemory> access_out(Control& control, const Config& config, const std::vector<int>& host,
                                       const std::vector<int>& numbers, std::vector<Occupant>& occupants,
                                       std::uint64_t generation, TimePoint deadline) {
  std::uint64_t probe = kProbe;
  if (config.peer_memory.value_or(true))
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // else Yama refuses it to other processes
  Writer out;
  out.u64(static_cast<std::uint64_t>(::getpid())).u64(reinterpret_cast<std::uint64_t>(&probe));
  const auto told = exchange(control, out.take(), deadline);
  std::vector<std::uint64_t> probes(occupants.size());
  for (std::size_t place = 0; place < host.size(); ++place) {
    Reader in(told[static_cast<std::size_t>(host[place])]);
    const auto number = static_cast<std::size_t>(numbers[place]);
    occupants[number] = {static_cast<int>(in.below(std::uint64_t{1} << 31, "a process id")), generation};
    probes[number] = in.u64();
    in.finish();
  }
  std::unique_ptr<PeerMemory> memory;
  const auto reached = who_can(control, deadline, "reaching private memory", [&] {
    if (!config.peer_memory.value_or(true)) throw Error(Code::unavailable, "HORA_PEER_MEMORY=0");
    memory = make_process_memory(processes_of(occupants), probes);
    if (!memory)
      throw Error(Code::unavailable, "process_vm_readv is not permitted; private buffers take one more copy");
  });
  const bool all = std::all_of(host.begin(), host.end(),
                               [&](int rank) { return reached[static_cast<std::size_t>(rank)]; });
  return all ? std::move(memory) : nullptr;
}

// --- the arena of the former generation ---

/// The message of each rank about the arena that it has kept from the former generation. A value.
struct Kept {
  std::string file;  ///< by which ranks know that they have kept the same one; empty: none is kept
  int rank = 0;      ///< of this rank in that arena
  std::size_t block = 0;
  bool reaches = false;  ///< into the private memory of the others
  std::vector<Occupant> occupants;
};

Bytes encode(const Kept& kept) {
  Writer out;
  out.string(kept.file).u64(static_cast<std::uint64_t>(kept.rank)).u64(kept.block).u64(kept.reaches ? 1 : 0);
  put(out, kept.occupants);
  return out.take();
}

Kept decode_kept(const Bytes& bytes) {
  Reader in(bytes);
  Kept kept;
  kept.file = in.string(kMostName);
  kept.rank = static_cast<int>(in.below(kMostRanks, "a rank of an arena"));
  kept.block = in.u64();
  kept.reaches = in.below(2, "whether private memory is in reach") == 1;
  kept.occupants = take_occupants(in);
  in.finish();
  return kept;
}

/// The facts about the arenas that ranks have kept.
struct AllKept {
  std::shared_ptr<KeptArena> own;    ///< null: this rank has kept none
  std::shared_ptr<RankBlock> block;  ///< of this rank, for the next communicator
  std::vector<Kept> of_rank;

  [[nodiscard]] const Kept& of(int rank) const { return of_rank[static_cast<std::size_t>(rank)]; }
  /// The ranks of a group that have kept the same arena as the first one that has kept any.
  [[nodiscard]] std::vector<int> keepers(const std::vector<int>& group) const {
    const auto first =
        std::find_if(group.begin(), group.end(), [&](int rank) { return !of(rank).file.empty(); });
    std::vector<int> ranks;
    std::copy_if(first, group.end(), std::back_inserter(ranks),
                 [&](int rank) { return of(rank).file == of(*first).file; });
    return ranks;
  }
  [[nodiscard]] bool goes_on(const std::vector<int>& group) const {
    return group.size() > 1 && keepers(group) == group;
  }
};

/// Brings what this rank has noted about its arena up to date. Ranks may know less that were late when a
/// generation was formed, and have not been in it.
void learn(KeptArena& own, const std::string& file, const std::vector<Kept>& all) {
  bool reaches = true;
  for (const auto& kept : all) {
    if (kept.file != file || kept.occupants.size() != own.occupants.size()) continue;
    reaches = reaches && kept.reaches;
    for (std::size_t number = 0; number < own.occupants.size(); ++number) {
      Occupant& known = own.occupants[number];
      if (kept.occupants[number].since > known.since) known = kept.occupants[number];
    }
  }
  const std::vector<std::uint64_t> tried(own.occupants.size());  // they were, when each of them came
  own.peers = reaches ? make_process_memory(processes_of(own.occupants), tried) : nullptr;
}

/// Tells each other what was kept. All ranks call it.
AllKept exchange_kept(World& world, TimePoint deadline) {
  AllKept all;
  if (const auto* former = dynamic_cast<const KeptArena*>(world.host_memory.get()))
    all.own = std::make_shared<KeptArena>(*former);
  Kept mine;
  try {
    if (all.own) {
      const Arena& arena = *all.own->arena;
      all.block = all.own->arena->take_block();
      tell(all.block->roll.cores);  // before any of them can look at it
      mine = {arena.file_name(), arena.rank(), arena.offset_of(*all.block), all.own->peers != nullptr,
              all.own->occupants};
    }
  } catch (const Error& error) {
    log(LogLevel::info, fmt::format("shared memory is made anew: {}", error.what()));
  }
  for (const auto& told : exchange(*world.control, encode(mine), deadline))
    all.of_rank.push_back(decode_kept(told));
  if (!mine.file.empty()) {
    learn(*all.own, mine.file, all.of_rank);
    world.host_memory = all.own;
  }
  return all;
}

/// Gives back the memory of processes that have ended. `stay`: ranks of the arena whose processes have not.
void clear_ended(KeptArena& kept, const std::set<int>& stay, std::uint64_t generation) {
  if (!kept.peers) return;
  for (int number = 0; number < kept.arena->ranks(); ++number) {
    if (kept.at(number).process == 0 || stay.contains(number) || !kept.peers->has_ended(number)) continue;
    kept.arena->clear(number);
    kept.at(number) = {0, generation};
  }
}

/// Ranks in a kept arena for all of a group; none: there is no room. Others than those of processes that may
/// still use their memory.
std::vector<int> numbers_in(KeptArena& kept, const std::vector<int>& group, const AllKept& all,
                            std::uint64_t generation) {
  const auto keepers = all.keepers(group);
  std::set<int> taken;
  for (const int rank : keepers) taken.insert(all.of(rank).rank);
  clear_ended(kept, taken, generation);
  std::vector<int> numbers;
  for (const int rank : group) {
    if (contains(keepers, rank)) {
      numbers.push_back(all.of(rank).rank);
      continue;
    }
    int number = 0;
    while (number < kept.arena->ranks() && (taken.contains(number) || kept.at(number).process != 0)) {
      ++number;
    }
    if (number == kept.arena->ranks()) return {};
    taken.insert(number);
    numbers.push_back(number);
  }
  return numbers;
}

/// The memory of a group whose ranks have all kept the same arena.
SharedHost go_on(const AllKept& all, const std::vector<int>& group, const Membership& membership) {
  const int rank = membership.rank;
  std::vector<int> numbers;
  std::vector<std::uint64_t> blocks;
  for (const int each : group) {
    numbers.push_back(all.of(each).rank);
    blocks.push_back(all.of(each).block);
  }
  if (rank == group.front()) clear_ended(*all.own, {numbers.begin(), numbers.end()}, membership.generation);
  return {Communicator(all.own->arena, place_in(group, rank), numbers, blocks, all.block), all.own->peers};
}

// --- an arena for ranks that do not have it ---

/// The arena of this rank, and its group's part of it. A value.
struct Passed {
  std::shared_ptr<Arena> arena;
  bool kept = false;         ///< see Invitation
  std::vector<int> numbers;  ///< the ranks in the arena of those of the group that have it
  std::vector<Occupant> occupants;
};

/// The arena that a rank passes on.
struct Offer {
  Invitation invitation;
  Descriptor listener;
  Descriptor file;
};

Descriptor another_of(int file) { return Descriptor(::fcntl(file, F_DUPFD_CLOEXEC, 0)); }

/// The arena that was kept, if there is room in it for the group, or a new one. Throws Error(unavailable).
Offer make_offer(const Config& config, const std::vector<int>& group, const AllKept& all,
                 std::uint64_t generation) {
  Offer offer;
  Invitation& invitation = offer.invitation;
  if (!all.keepers(group).empty()) invitation.numbers = numbers_in(*all.own, group, all, generation);
  if (invitation.numbers.empty()) {
    invitation.ranks = arena_ranks(config, group.size());
    invitation.region = region_bytes(config, static_cast<std::size_t>(invitation.ranks));
    invitation.numbers.resize(group.size());
    std::iota(invitation.numbers.begin(), invitation.numbers.end(), 0);
    invitation.occupants.resize(static_cast<std::size_t>(invitation.ranks));
    offer.file = Arena::create_file(invitation.ranks, invitation.region);
  } else {
    const Arena& arena = *all.own->arena;
    invitation.kept = true;
    invitation.ranks = arena.ranks();
    invitation.region = arena.region();
    invitation.occupants = all.own->occupants;
    offer.file = another_of(arena.file());
  }
  invitation.socket = random_name();
  offer.listener = listen_local(invitation.socket);
  return offer;
}

/// The file of an arena, from the rank that passes it on.
Descriptor receive_file(const Invitation& invitation, const Membership& membership, TimePoint deadline) {
  const Descriptor socket = connect_local(invitation.socket);
  greet(socket.fd(), membership.secret, {Role::arena, membership.rank, membership.size}, deadline);
  return receive_descriptor(socket, deadline);
}

/// One rank of each group passes an arena to the others: the lowest one that has kept one, or the lowest one,
/// which then makes a new one. The groups become the ranks that have it. Returns that of this rank, if it got
/// one.
std::optional<Passed> pass_on(const World& world, const Config& config, Groups& groups, const AllKept& all,
                              TimePoint deadline) {
  const Membership& membership = world.membership;
  const std::vector<int> group = group_with(groups, membership.rank);
  const auto keepers = all.keepers(group);
  const int giver = keepers.empty() ? group.front() : keepers.front();
  Offer offer;
  try {
    if (group.size() > 1 && giver == membership.rank)
      offer = make_offer(config, group, all, membership.generation);
  } catch (const Error& error) {
    log(LogLevel::info, fmt::format("no shared memory: making the arena: {}", error.what()));
    offer = {};
  }
  const Invitation invitation = invite(*world.control, offer.invitation, giver, group.size(), deadline);
  std::vector<int> receivers;
  for (const int rank : group) {
    if (rank != giver && !(invitation.kept && contains(keepers, rank))) receivers.push_back(rank);
  }
  const bool receives = contains(receivers, membership.rank);

  std::shared_ptr<Arena> arena;
  std::optional<ArenaFileServer> server;
  if (offer.listener) server.emplace(offer.listener, offer.file, membership, receivers, deadline);
  const auto can = who_can(*world.control, deadline, "passing on the arena", [&] {
    if (group.size() == 1) return;
    if (invitation.socket.empty()) throw Error(Code::unavailable, "there is none");
    if (invitation.kept && !receives) {
      arena = all.own->arena;
      return;
    }
    Descriptor file = receives ? receive_file(invitation, membership, deadline) : another_of(offer.file.fd());
    const auto bytes = Arena::file_bytes(invitation.ranks, invitation.region);
    const int number = invitation.numbers[static_cast<std::size_t>(place_in(group, membership.rank))];
    auto made = Arena::make(std::make_shared<const Mapping>(std::move(file), bytes), number, invitation.ranks,
                            invitation.region);
    // Before any of them hears that all have a rank block. A former process may have left something there.
    std::memset(static_cast<void*>(&made->block(number)), 0, sizeof(RankBlock));
    tell(made->block(number).roll.cores);
    arena = std::move(made);
  });
  groups = set_apart(groups, can);
  if (!arena) return std::nullopt;
  Passed passed{std::move(arena), invitation.kept, {}, invitation.occupants};
  for (std::size_t place = 0; place < group.size(); ++place) {
    if (can[static_cast<std::size_t>(group[place])]) passed.numbers.push_back(invitation.numbers[place]);
  }
  return passed;
}

/// Lets the ranks of each group share an arena, of which at least one rank does not have it. The groups
/// become the ranks that do.
std::optional<SharedHost> share_arena(World& world, const Config& config, Groups& groups, const AllKept& all,
                                      TimePoint deadline) {
  if (all_alone(groups)) return std::nullopt;
  auto passed = pass_on(world, config, groups, all, deadline);
  if (all_alone(groups)) return std::nullopt;
  const int rank = world.membership.rank;
  const std::vector<int>& group = group_with(groups, rank);
  // A rank that is alone here takes part in what all ranks have to call.
  if (!passed) passed = Passed{nullptr, false, {0}, {{}}};
  const std::vector<int>& numbers = passed->numbers;
  std::shared_ptr<PeerMemory> peers = access_out(*world.control, config, group, numbers, passed->occupants,
                                                 world.membership.generation, deadline);
  if (group.size() == 1) return std::nullopt;
  const auto keepers = passed->kept ? all.keepers(group) : std::vector<int>{};
  std::vector<std::uint64_t> blocks;
  for (std::size_t place = 0; place < group.size(); ++place) {
    blocks.push_back(contains(keepers, group[place])
                         ? all.of(group[place]).block
                         : static_cast<std::uint64_t>(numbers[place]) * sizeof(RankBlock));
  }
  auto kept = std::make_shared<KeptArena>();
  kept->arena = passed->arena;
  kept->peers = peers;
  kept->occupants = passed->occupants;
  world.host_memory = std::move(kept);
  return SharedHost{Communicator(passed->arena, place_in(group, rank), numbers, blocks,
                                 contains(keepers, rank) ? all.block : nullptr),
                    std::move(peers)};
}

}  // namespace

SharedHosts share_hosts(World& world, const Config& config, TimePoint deadline) {
  const std::string mine = hint();
  const Groups groups = group_by(exchange(*world.control, std::as_bytes(std::span(mine)), deadline));
  if (all_alone(groups)) return {groups, {}};
  const AllKept all = exchange_kept(world, deadline);
  std::vector<bool> needs_arena;  // the others are alone here, and take part in what all ranks have to call
  for (int rank = 0; rank < world.membership.size; ++rank)
    needs_arena.push_back(!all.goes_on(group_with(groups, rank)));
  Groups fresh = set_apart(groups, needs_arena);
  auto own = share_arena(world, config, fresh, all, deadline);
  Groups hosts;
  for (const auto& group : groups) {
    if (!all.goes_on(group)) continue;
    hosts.push_back(group);
    if (contains(group, world.membership.rank)) own = go_on(all, group, world.membership);
  }
  for (auto& group : fresh) {
    if (needs_arena[static_cast<std::size_t>(group.front())]) hosts.push_back(std::move(group));
  }
  std::sort(hosts.begin(), hosts.end());  // by their lowest ranks
  return {std::move(hosts), std::move(own)};
}

}  // namespace hora::shm
