// SPDX-License-Identifier: Apache-2.0
#include "core/join/peer_list.h"

#include "core/base/bytes.h"
#include "core/base/machine.h"

#include <unistd.h>

#include <filesystem>

namespace hora {
namespace {

constexpr std::size_t kLongestName = 256;
constexpr std::size_t kMostAddress = 64;
constexpr std::size_t kJobDigits = 8;

void write(Writer& out, const Member& member) {
  out.u64(static_cast<std::uint64_t>(member.pid)).string(member.host).string(member.pid_space);
  out.u64(member.addresses.size());
  for (const auto& address : member.addresses) out.string(address);
}

Member read(Reader& in, int rank) {
  Member member;
  member.rank = rank;
  member.pid = static_cast<int>(in.below(std::uint64_t{1} << 31, "a process id"));
  member.host = in.string(kLongestName);
  member.pid_space = in.string(kLongestName);
  const std::size_t addresses = in.count(1, "addresses");
  for (std::size_t i = 0; i < addresses; ++i) member.addresses.push_back(in.string(kMostAddress));
  return member;
}

/// Names the set of process ids that a process shares with others: this boot of this kernel, this namespace.
std::string pid_space() {
  const std::string boot = boot_id();
  std::error_code error;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  return boot.empty() || space.empty() ? std::string() : boot + space;
}

}  // namespace

Member this_member(int rank) { return {rank, ::getpid(), host_name(), pid_space(), {}}; }

Bytes encode(const Member& member) {
  Writer out;
  write(out, member);
  return out.take();
}

Member decode_member(std::span<const std::byte> bytes, int rank) {
  Reader in(bytes);
  Member member = read(in, rank);
  in.finish();
  return member;
}

Bytes encode(const PeerList& peer_list) {
  Writer out;
  out.string(peer_list.job).u64(static_cast<std::uint64_t>(peer_list.radix)).u64(peer_list.members.size());
  for (const auto& member : peer_list.members) write(out, member);
  return out.take();
}

PeerList decode_peer_list(std::span<const std::byte> bytes, int size) {
  Reader in(bytes);
  PeerList peer_list;
  peer_list.job = in.string(kJobDigits);
  if (peer_list.job.size() != kJobDigits ||
      peer_list.job.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw Error(Code::internal, "bad message: a job is eight hexadecimal digits");
  }
  peer_list.radix = static_cast<int>(in.below(kMostRadix + 1, "a radix"));
  if (in.count(4, "members") != static_cast<std::size_t>(size)) {
    throw Error(Code::internal, "bad message: a peer list that is not of all ranks");
  }
  for (int rank = 0; rank < size; ++rank) peer_list.members.push_back(read(in, rank));
  in.finish();
  return peer_list;
}

}  // namespace hora
