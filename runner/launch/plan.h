// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"
#include "runner/launch/binding.h"
#include "runner/launch/placement.h"
#include "runner/streams/terminal.h"

#include <hora/config.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hora::hrun {

/// The standard input of ranks that read what hrun reads.
enum class InputKind : std::uint8_t {
  nothing,    ///< it is at its end
  inherited,  ///< that of hrun itself
  piped,      ///< a pipe, into which goes what hrun reads
  terminal,   ///< a terminal of the rank's own, also for its output; hrun passes on what the user types
};
inline constexpr int kInputKinds = 4;
inline constexpr int kEveryRank = -1;

/// The work that has to be done on one host: all that an agent there needs to know. A value.
struct HostPlan {
  std::vector<std::string> command;      ///< the program and its arguments; the program is a path
  std::vector<std::string> environment;  ///< "NAME=VALUE": what all ranks get, beside what each is told
  std::string directory;                 ///< where they work; empty: where hrun does
  std::string horovod_folder;            ///< --horovod: see runner/horovod/horovod.h
  std::string network;                   ///< --network: see core/join/network.h
  Secret secret{};
  std::vector<RankPlacement> placements;  ///< of this host's ranks, in order; those of an elastic job that
                                          ///< come later are not among them
  int slots = 0;                          ///< how many ranks it may have, at least those
  BindTo bind_to = BindTo::none;
  bool alone = true;      ///< no other host takes part
  bool terminal = false;  ///< hrun prints to a terminal
  bool elastic = false;   ///< the job goes on when ranks are lost: each rank has a MemberLine
  InputKind input = InputKind::nothing;
  int reader = kEveryRank;  ///< the rank of the job that has this input; the others here have none
  WindowSize window;        ///< of its terminal
};

/// The message of a host when it could start its ranks. A value.
struct Ready {
  std::vector<std::string> addresses;  ///< at which others may reach the host, the best first; those of rank
                                       ///< 0's host, and in an elastic job of every host
  int port = 0;                        ///< of rank 0's host: where rank 0 will listen
  int master_port = 0;                 ///< of rank 0's host: kept free for torch.distributed
  std::vector<std::string>
      bindings;         ///< of its ranks, in order, as `describe` has them; empty: none is bound
  std::string unbound;  ///< why none is, though they were to be
};

/// The addresses at which the ranks find rank 0. A value.
struct RendezvousPoint {
  std::string coordinator;  ///< HORA_COORDINATOR: "address:port,[address]:port"
  std::string master_address;
  int master_port = 0;
};

/// Where rank 0 is: at its host's addresses, and last of all under the name by which hrun reached that host.
[[nodiscard]] RendezvousPoint rendezvous_at(const Ready& first, const std::string& host);

/// The bytes of each, and back. Bytes that do not fit throw Error(internal).
void put(Writer& out, const RankPlacement& placement);
[[nodiscard]] RankPlacement take_placement(Reader& in);
[[nodiscard]] Bytes encode(const HostPlan& plan);
[[nodiscard]] HostPlan decode_plan(std::span<const std::byte> bytes);
[[nodiscard]] Bytes encode(const Ready& ready);
[[nodiscard]] Ready decode_ready(std::span<const std::byte> bytes);
[[nodiscard]] Bytes encode(const RendezvousPoint& rendezvous);
[[nodiscard]] RendezvousPoint decode_rendezvous(std::span<const std::byte> bytes);

}  // namespace hora::hrun
