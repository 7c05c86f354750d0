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

/// Sent in a third of a second at 1 Gbit/s. The parts after it are as large as has proved good.
constexpr std::size_t kFirstPartBytes = 32 << 20;

constexpr std::size_t kLeastPartBytes = 1 << 20;

/// The share of a step in which a part is to be sent: gradients need the network, too.
constexpr double kShareOfStep = 0.5;

constexpr double kMostGrowth = 8;

std::vector<Memory> chunks_of(std::span<const StateTransfer::Unit> units) {
  std::vector<Memory> chunks;
  for (const auto& unit : units) {
    for (Memory rest : unit) {
      for (; !rest.empty(); rest = rest.subspan(chunks.back().size()))
        chunks.push_back(rest.first(std::min(rest.size(), kChunkBytes)));
    }
  }
  return chunks;
}

std::size_t bytes_of(const StateTransfer::Unit& unit) {
  std::size_t bytes = 0;
  for (const Memory memory : unit) bytes += memory.size();
  return bytes;
}

Memory bytes_of(std::vector<std::uint64_t>& numbers) { return std::as_writable_bytes(std::span(numbers)); }

Message message_with(int peer, Memory memory) {
  Message message;
  message.peer = peer;
  message.process_set = kStateMessages;
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

StateTransfer::StateTransfer(Runtime& hora, const std::vector<bool>& joins)
    : hora_(hora), ranks_(ranks_of(joins, hora.rank())), part_bytes_(kFirstPartBytes) {}

StateTransfer::~StateTransfer() {
  for (const Handle& handle : under_way_) {
    try {
      handle.wait();
    } catch (const Error&) {
      continue;  // it has ended, too
    }
  }
}

std::size_t StateTransfer::begin_part(const std::vector<Unit>& state, bool rest) {
  const std::size_t first = sent_;
  units_ = state.size();
  const std::size_t most = std::exchange(part_bytes_, 0);
  while (sent_ < units_ && (rest || part_bytes_ == 0 || part_bytes_ < most))
    part_bytes_ += bytes_of(state[sent_++]);
  ++parts_;
  if (has_last_part()) compared_ = chunks_of(state);
  start(chunks_of(std::span(state).subspan(first, sent_ - first)));
  return sent_;
}

void StateTransfer::start(const std::vector<Memory>& chunks) {
  under_way_.clear();
  begun_ = Clock::now();
  took_ = std::make_shared<std::atomic<std::int64_t>>(0);
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    if (ranks_.self) under_way_.push_back(receive(sender_of(chunk, *ranks_.self), chunks[chunk]));
    for (std::size_t joiner = 0; joiner < ranks_.join.size(); ++joiner) {
      if (sender_of(chunk, joiner) == hora_.rank())
        under_way_.push_back(send(ranks_.join[joiner], chunks[chunk]));
    }
  }
}

int StateTransfer::sender_of(std::size_t chunk, std::size_t joiner) const {
  return ranks_.have[(chunk + joiner) % ranks_.have.size()];
}

std::vector<std::uint64_t> StateTransfer::digests(int from, std::size_t joiner) const {
  std::vector<std::uint64_t> digests;
  for (std::size_t chunk = 0; chunk < compared_.size(); ++chunk) {
    if (sender_of(chunk, joiner) == from) digests.push_back(digest_of(compared_[chunk]));
  }
  return digests;
}

Handle StateTransfer::send(int to, Memory memory) {
  Message message = message_with(to, memory);
  message.input = memory.data();
  message.done = stamp();
  return hora_.send(std::move(message));
}

Handle StateTransfer::receive(int from, Memory memory) {
  Message message = message_with(from, memory);
  message.output = memory.data();
  message.done = stamp();
  return hora_.receive(std::move(message));
}

/// Notes when a message ended. Only the latest counts, and what is read is an estimate, so order is free.
std::function<void(const Result&)> StateTransfer::stamp() const {
  return [took = took_, begun = begun_](const Result&) {
    took->store((Clock::now() - begun).count(), std::memory_order_relaxed);
  };
}

void StateTransfer::await_part() {
  if (!ranks_.self) return;
  for (const Handle& handle : under_way_) handle.wait();
}

StateTransfer::Outcome StateTransfer::confirm() {
  const auto computed = Clock::now();
  for (const Handle& handle : under_way_) handle.wait();
  if (!has_last_part()) {
    const double bytes = static_cast<double>(part_bytes_) * least(growth(computed));
    part_bytes_ = std::max(kLeastPartBytes, static_cast<std::size_t>(bytes));
    return Outcome::more_follows;
  }
  const std::optional<int> other = one_that_differs();
  if (parts_ > 1) return least(other ? 0 : 1) > 0 ? Outcome::is_complete : Outcome::differs;
  if (!other) return Outcome::is_complete;
  throw Error(Code::internal,
              "this process cannot join the job: it has another state than rank " + std::to_string(*other) +
                  ", from which it got it. Either the program changes parameters within a step (do that "
                  "where the step counts), or memory or network have changed the bytes");
}

double StateTransfer::growth(Clock::time_point computed) const {
  const auto took = static_cast<double>(took_->load(std::memory_order_relaxed));
  const auto may_take = kShareOfStep * static_cast<double>((computed - begun_).count());
  return took > 0 ? std::min(kMostGrowth, may_take / took) : kMostGrowth;
}

double StateTransfer::least(double own) {
  Entry entry;
  entry.name = "elastic.training.part";
  entry.dtype = DType::float64;
  entry.shape = {1};
  entry.input = entry.output = &own;
  entry.op = ReduceOp::min;
  hora_.submit(std::move(entry)).wait();
  return own;
}

std::optional<int> StateTransfer::one_that_differs() {
  for (std::size_t joiner = 0; joiner < ranks_.join.size() && !ranks_.self; ++joiner) {
    std::vector<std::uint64_t> own = digests(hora_.rank(), joiner);
    send(ranks_.join[joiner], bytes_of(own)).wait();
  }
  std::optional<int> other;
  for (const int from : ranks_.have) {
    if (!ranks_.self) continue;
    const std::vector<std::uint64_t> own = digests(from, *ranks_.self);
    std::vector<std::uint64_t> sent(own.size());
    receive(from, bytes_of(sent)).wait();
    if (sent != own && !other) other = from;
  }
  return other;
}

}  // namespace hora::state
