// SPDX-License-Identifier: Apache-2.0
#include "core/watch/message_wait.h"

#include "core/base/bytes.h"
#include "core/negotiate/message.h"
#include "core/watch/duration_field.h"

#include <hora/message.h>

#include <fmt/format.h>

#include <limits>

namespace hora {
namespace {

constexpr std::size_t kMostWhatBytes = 256;
constexpr std::uint64_t kMostNumber = std::numeric_limits<int>::max();  // of a tag, of a process set

// -1, which stands for any, and for no process set, travels as 0.
std::uint64_t shifted(int number) { return static_cast<std::uint64_t>(std::int64_t{number} + 1); }
int read_shifted(Reader& in, std::uint64_t most, const char* what) {
  return static_cast<int>(static_cast<std::int64_t>(in.below(most + 2, what)) - 1);
}

}  // namespace

std::string kind(const MessageWait& wait) { return wait.sends ? "send" : "receive"; }

std::string title(const MessageWait& wait) {
  return fmt::format("a message {} {} with {}{}", wait.sends ? "to" : "from",
                     !wait.sends && wait.peer == kAnySource ? "any rank" : fmt::format("rank {}", wait.peer),
                     !wait.sends && wait.tag == kAnyTag ? "any tag" : fmt::format("tag {}", wait.tag),
                     wait.process_set > 0 ? fmt::format(" in process set {}", wait.process_set) : "");
}

Bytes encode(std::span<const MessageWait> waits) {
  Writer out;
  out.u64(waits.size());
  for (const auto& wait : waits) {
    out.u8(wait.sends ? 1 : 0).u64(shifted(wait.peer)).u64(shifted(wait.tag)).u64(shifted(wait.process_set));
    out.string(shortened(wait.what, kMostWhatBytes)).u64(wait.bytes);
    write(out, wait.since);
  }
  return out.take();
}

std::vector<MessageWait> decode_waits(std::span<const std::byte> bytes, int size) {
  Reader in(bytes);
  std::vector<MessageWait> waits;
  for (auto left = in.below(kMostWaits + 1, "messages that wait"); left > 0; --left) {
    MessageWait& wait = waits.emplace_back();
    wait.sends = in.boolean();
    wait.peer = read_shifted(in, static_cast<std::uint64_t>(size - 1), "a rank");
    wait.tag = read_shifted(in, kMostNumber, "a tag");
    wait.process_set = read_shifted(in, kMostNumber, "a process set");
    wait.what = in.string(kMostWhatBytes);
    wait.bytes = in.u64();
    wait.since = read_time(in);
  }
  in.finish();
  return waits;
}

}  // namespace hora
