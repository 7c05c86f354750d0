// SPDX-License-Identifier: Apache-2.0
#include "frameworks/state/state_transfer.h"

#include "frameworks/state/digest.h"

#include <algorithm>
#include <string>
#include <utility>

namespace hora::state {
namespace {

using Memory = StateTransfer::Memory;

/// Small enough for several ranks to share a model, and large enough that one message costs little.
constexpr std::size_t kChunkBytes = 4 << 20;

std::vector<Memory> chunks_of(const std::vector<Memory>& state) {
  std::vector<Memory> chunks;
  for (Memory rest : state) {
    for (; !rest.empty(); rest = rest.subspan(chunks.back().size()))
      chunks.push_back(rest.first(std::min(rest.size(), kChunkBytes)));
  }
  return chunks;
}

Memory bytes_of(std::vector<std::uint64_t>& numbers) { return std::as_writable_bytes(std::span(numbers)); }

Message message_with(int peer, Memory memory) {
  Message message;
  message.peer = peer;
  message.tag = kStateTag;
  message.dtype = DType::uint8;
  message.shape = {static_cast<std::int64_t>(memory.size())};
  return message;
}

}  // namespace

StateTransfer::Ranks StateTransfer::ranks_of(const std::vector<bool>& joins, int self) {
  Ranks ranks;
  for (int rank = 0; rank < static_cast<int>(joins.size()); ++rank) {
    const bool joins_too = joins[static_cast<std::size_t>(rank)];
    if (joins_too && rank == self) ranks.self = ranks.join.size();
    (joins_too ? ranks.join : ranks.have).push_back(rank);
  }
  return ranks;
}

StateTransfer::StateTransfer(Runtime& hora, Ranks ranks, std::vector<Memory> chunks)
    : hora_(hora), ranks_(std::move(ranks)), chunks_(std::move(chunks)) {}

/// From here on the destructor waits for what has been started, also if this throws.
StateTransfer::StateTransfer(Runtime& hora, const std::vector<bool>& joins, const std::vector<Memory>& state)
    : StateTransfer(hora, ranks_of(joins, hora.rank()), chunks_of(state)) {
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (ranks_.self) under_way_.push_back(receive(sender_of(chunk, *ranks_.self), chunks_[chunk]));
    for (std::size_t joiner = 0; joiner < ranks_.join.size(); ++joiner) {
      if (sender_of(chunk, joiner) == hora_.rank())
        under_way_.push_back(send(ranks_.join[joiner], chunks_[chunk]));
    }
  }
}

StateTransfer::~StateTransfer() {
  for (const Handle& handle : under_way_) {
    try {
      handle.wait();
    } catch (const Error&) {
      continue;  // it has ended, too
    }
  }
}

int StateTransfer::sender_of(std::size_t chunk, std::size_t joiner) const {
  return ranks_.have[(chunk + joiner) % ranks_.have.size()];
}

std::vector<std::uint64_t> StateTransfer::digests(int from, std::size_t joiner) const {
  std::vector<std::uint64_t> digests;
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (sender_of(chunk, joiner) == from) digests.push_back(digest_of(chunks_[chunk]));
  }
  return digests;
}

Handle StateTransfer::send(int to, Memory memory) {
  Message message = message_with(to, memory);
  message.input = memory.data();
  return hora_.send(std::move(message));
}

Handle StateTransfer::receive(int from, Memory memory) {
  Message message = message_with(from, memory);
  message.output = memory.data();
  return hora_.receive(std::move(message));
}

void StateTransfer::await_state() {
  if (!ranks_.self) return;
  for (const Handle& handle : under_way_) handle.wait();
}

void StateTransfer::confirm() {
  await_state();
  for (std::size_t joiner = 0; joiner < ranks_.join.size() && !ranks_.self; ++joiner) {
    std::vector<std::uint64_t> own = digests(hora_.rank(), joiner);
    send(ranks_.join[joiner], bytes_of(own)).wait();
  }
  for (const int from : ranks_.have) {
    if (!ranks_.self) continue;
    const std::vector<std::uint64_t> own = digests(from, *ranks_.self);
    std::vector<std::uint64_t> sent(own.size());
    receive(from, bytes_of(sent)).wait();
    if (sent == own) continue;
    throw Error(Code::internal,
                "this process cannot join the job: it has another state than rank " + std::to_string(from) +
                    ", from which it got it. Either the program changes parameters within a step (do that "
                    "where the step counts), or memory or network have changed the bytes");
  }
}

}  // namespace hora::state
