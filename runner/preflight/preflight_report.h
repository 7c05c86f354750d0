// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"
#include "runner/preflight/link_probe.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hora::hrun {

/// An address of a host. A value.
struct ProbedAddress {
  std::string address;    ///< numeric
  std::string interface;  ///< "eth0"
  int speed = 0;          ///< of its link, Mb/s, as the system tells it; 0: it does not
  bool operator==(const ProbedAddress&) const = default;
};

/// The facts that a host tells about itself before links are measured. A value.
struct HostFacts {
  std::string name;          ///< as hrun was given it
  int cores = 0;             ///< that may be used
  std::uint64_t memory = 0;  ///< bytes
  std::string version;       ///< Hora's
  std::string arena;         ///< what its ranks can do with shared memory, or why they cannot share any
  std::vector<ProbedAddress> addresses;  ///< the best first
  int port = 0;                          ///< where it listens for whoever measures
  std::string token;                     ///< by which it knows them
  bool operator==(const HostFacts&) const = default;
};

/// A link between two hosts. A value.
struct LinkFacts {
  int from = 0;  ///< the host that connected, by its number
  int to = 0;
  std::string trouble;       ///< why there is no link; empty: there is
  std::string address_from;  ///< by which addresses they are connected
  std::string address_to;
  LinkFigures figures;
  bool operator==(const LinkFacts&) const = default;
};

/// The bytes of each, and back. Bytes that do not fit throw Error(internal).
[[nodiscard]] Bytes encode(const HostFacts& facts);
[[nodiscard]] HostFacts decode_host(std::span<const std::byte> bytes);
[[nodiscard]] Bytes encode(std::span<const LinkFacts> links);
/// Of `hosts` hosts.
[[nodiscard]] std::vector<LinkFacts> decode_links(std::span<const std::byte> bytes, int hosts);

/// The text that --preflight prints. A pure function.
[[nodiscard]] std::string report(const std::vector<HostFacts>& hosts, const std::vector<LinkFacts>& links);
/// Whether every host reaches every other.
[[nodiscard]] bool all_reached(const std::vector<LinkFacts>& links);

}  // namespace hora::hrun
