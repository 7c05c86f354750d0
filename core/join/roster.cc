// SPDX-License-Identifier: Apache-2.0
#include "core/join/roster.h"

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

Bytes encode(const Roster& roster) {
  Writer out;
  out.string(roster.job).u64(static_cast<std::uint64_t>(roster.radix)).u64(roster.members.size());
  for (const auto& member : roster.members) write(out, member);
  return out.take();
}

Roster decode_roster(std::span<const std::byte> bytes, int size) {
  Reader in(bytes);
  Roster roster;
  roster.job = in.string(kJobDigits);
  if (roster.job.size() != kJobDigits ||
      roster.job.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw Error(Code::internal, "bad message: a job is eight hexadecimal digits");
  }
  roster.radix = static_cast<int>(in.below(kMostRadix + 1, "a radix"));
  if (in.count(4, "members") != static_cast<std::size_t>(size)) {
    throw Error(Code::internal, "bad message: a roster that is not of all ranks");
  }
  for (int rank = 0; rank < size; ++rank) roster.members.push_back(read(in, rank));
  in.finish();
  return roster;
}

}  // namespace hora
