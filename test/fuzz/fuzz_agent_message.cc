// SPDX-License-Identifier: Apache-2.0
// Messages between hrun and an agent: a stream is cut into the same messages however it arrives, and each is
// understood or refused by an Error.
#include "runner/launch/agent_message.h"
#include "runner/launch/plan.h"

#include <hora/status.h>

#include <algorithm>
#include <vector>

namespace {

constexpr int kRanks = 3;

std::vector<hora::hrun::AgentMessage> messages(std::span<const std::byte> bytes, std::size_t step) {
  std::vector<hora::hrun::AgentMessage> all;
  hora::hrun::AgentMessageReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    reader.feed(bytes.subspan(at, std::min(step, bytes.size() - at)));
    while (auto message = reader.next()) all.push_back(*std::move(message));
  }
  return all;
}

template <typename Decode>
void attempt(Decode decode) {
  try {
    static_cast<void>(decode());
  } catch (const hora::Error&) {
    return;
  }
}

}  // namespace

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  attempt([&] { return hora::hrun::decode_plan(bytes); });
  attempt([&] { return hora::hrun::decode_ready(bytes); });
  attempt([&] { return hora::hrun::decode_rendezvous(bytes); });
  attempt([&] { return hora::hrun::decode_started(bytes, kRanks); });
  attempt([&] { return hora::hrun::decode_ended(bytes, kRanks); });
  attempt([&] { return hora::hrun::decode_piece(bytes, kRanks).stream; });
  attempt([&] { return hora::hrun::decode_taken(bytes, kRanks); });
  attempt([&] { return hora::hrun::decode_rank_reply(bytes, kRanks).index; });
  attempt([&] { return hora::hrun::decode_to_member(bytes, kRanks).index; });
  attempt([&] { return hora::hrun::decode_from_member(bytes, kRanks).index; });
  attempt([&] { return hora::hrun::decode_index(bytes, kRanks); });
  attempt([&] { return hora::hrun::decode_window(bytes, 1); });
  attempt([&] { return hora::hrun::decode_window_size(bytes); });
  attempt([&] { return hora::hrun::decode_pong(bytes); });
  attempt([&] {
    hora::hrun::AgentMessageReader reader;
    reader.feed(bytes);
    while (reader.next_line()) {
    }
    return 0;
  });
  attempt([&] {
    const auto whole = messages(bytes, size + 1);
    if (messages(bytes, 3) != whole) std::abort();
    return 0;
  });
  return 0;
}
