// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_gpu/fake_work.h"

#include "test/support/fake_gpu/fake_elements.h"

#include <algorithm>
#include <cstring>
#include <deque>

namespace hora {

using Outcome = FakeTransfers::Outcome;

namespace {

bool is_message(const FakeOperation& operation) {
  return operation.kind == FakeKind::send || operation.kind == FakeKind::recv;
}

FakeTag tag_of(const FakeOperation& operation) {
  FakeTag tag;
  tag.kind = static_cast<std::uint32_t>(is_message(operation) ? FakeKind::send : operation.kind);
  tag.type = operation.type;
  tag.count = operation.count;
  if (is_message(operation)) return tag;
  tag.op = operation.op + (operation.multiplies ? 100U : 0U);
  tag.root = operation.root;
  if (operation.kind != FakeKind::broadcast) tag.input = operation.registered_input;
  if (operation.kind != FakeKind::reduce) tag.output = operation.registered_output;
  return tag;
}

void move_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

}  // namespace

Outcome FakeWork::run(const std::vector<FakeOperation>& operations) {
  for (const auto& operation : operations) {
    if (is_message(operation)) continue;
    Outcome outcome = agree(operation);
    if (outcome == Outcome::done) outcome = collective(operation);
    if (outcome != Outcome::done) return outcome;
  }
  return messages(operations);
}

Outcome FakeWork::finish(FakeTransfers& transfers) {
  const Outcome outcome = transfers.run();
  if (outcome == Outcome::mismatch) finding_ = transfers.finding();
  return outcome;
}

Outcome FakeWork::agree(const FakeOperation& operation) {
  FakeTransfers transfers(rendezvous_, rank_, ranks_, aborted_);
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    transfers.send(other, tag_of(operation), nullptr, 0);
    transfers.receive(other, tag_of(operation), nullptr, 0);
  }
  return finish(transfers);
}

Outcome FakeWork::collective(const FakeOperation& operation) {
  switch (operation.kind) {
    case FakeKind::all_reduce: return reduce_to_all(operation);
    case FakeKind::reduce: return reduce_to(operation, operation.root);
    case FakeKind::reduce_scatter: return reduce_blocks(operation);
    case FakeKind::broadcast: return broadcast(operation);
    default: return gather(operation);
  }
}

FakeWork::Bytes FakeWork::own_input(const FakeOperation& operation, std::size_t count) const {
  Bytes bytes(count * fake_size_of(operation.type));
  move_bytes(bytes.data(), operation.input, bytes.size());
  if (operation.multiplies) fake_multiply(operation.type, bytes.data(), operation.scalar.data(), count);
  return bytes;
}

void FakeWork::combine(const FakeOperation& operation, const std::vector<Bytes>& inputs,
                       std::byte* to) const {
  move_bytes(to, inputs[0].data(), inputs[0].size());
  const ncclRedOp_t op = operation.op == ncclAvg ? ncclSum : operation.op;
  for (std::size_t rank = 1; rank < inputs.size(); ++rank)
    fake_combine(op, operation.type, to, inputs[rank].data(), operation.count);
  if (operation.op == ncclAvg) fake_divide(operation.type, to, ranks_, operation.count);
}

Outcome FakeWork::reduce_to_all(const FakeOperation& operation) {
  std::vector<Bytes> inputs(static_cast<std::size_t>(ranks_));
  const auto own = static_cast<std::size_t>(rank_);
  inputs[own] = own_input(operation, operation.count);
  FakeTransfers transfers(rendezvous_, rank_, ranks_, aborted_);
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    Bytes& theirs = inputs[static_cast<std::size_t>(other)];
    theirs.resize(inputs[own].size());
    transfers.send(other, tag_of(operation), inputs[own].data(), inputs[own].size());
    transfers.receive(other, tag_of(operation), theirs.data(), theirs.size());
  }
  const Outcome outcome = finish(transfers);
  if (outcome == Outcome::done) combine(operation, inputs, static_cast<std::byte*>(operation.output));
  return outcome;
}

Outcome FakeWork::reduce_to(const FakeOperation& operation, int root) {
  std::vector<Bytes> inputs(static_cast<std::size_t>(ranks_));
  const auto own = static_cast<std::size_t>(rank_);
  inputs[own] = own_input(operation, operation.count);
  FakeTransfers transfers(rendezvous_, rank_, ranks_, aborted_);
  if (rank_ != root) transfers.send(root, tag_of(operation), inputs[own].data(), inputs[own].size());
  for (int other = 0; rank_ == root && other < ranks_; ++other) {
    if (other == root) continue;
    Bytes& theirs = inputs[static_cast<std::size_t>(other)];
    theirs.resize(inputs[own].size());
    transfers.receive(other, tag_of(operation), theirs.data(), theirs.size());
  }
  const Outcome outcome = finish(transfers);
  if (outcome == Outcome::done && rank_ == root)
    combine(operation, inputs, static_cast<std::byte*>(operation.output));
  return outcome;
}

Outcome FakeWork::reduce_blocks(const FakeOperation& operation) {
  const Bytes all = own_input(operation, operation.count * static_cast<std::size_t>(ranks_));
  const std::size_t block = operation.count * fake_size_of(operation.type);
  std::vector<Bytes> inputs(static_cast<std::size_t>(ranks_), Bytes(block));
  FakeTransfers transfers(rendezvous_, rank_, ranks_, aborted_);
  for (int other = 0; other < ranks_; ++other) {
    const auto at = static_cast<std::size_t>(other);
    if (other == rank_) {
      move_bytes(inputs[at].data(), all.data() + at * block, block);
      continue;
    }
    transfers.send(other, tag_of(operation), all.data() + at * block, block);
    transfers.receive(other, tag_of(operation), inputs[at].data(), block);
  }
  const Outcome outcome = finish(transfers);
  if (outcome == Outcome::done) combine(operation, inputs, static_cast<std::byte*>(operation.output));
  return outcome;
}

Outcome FakeWork::broadcast(const FakeOperation& operation) {
  const std::size_t bytes = operation.count * fake_size_of(operation.type);
  FakeTransfers transfers(rendezvous_, rank_, ranks_, aborted_);
  if (rank_ != operation.root) {
    transfers.receive(operation.root, tag_of(operation), operation.output, bytes);
    return finish(transfers);
  }
  for (int other = 0; other < ranks_; ++other) {
    if (other != rank_) transfers.send(other, tag_of(operation), operation.input, bytes);
  }
  const Outcome outcome = finish(transfers);
  if (outcome == Outcome::done) move_bytes(operation.output, operation.input, bytes);
  return outcome;
}

Outcome FakeWork::gather(const FakeOperation& operation) {
  const std::size_t bytes = operation.count * fake_size_of(operation.type);
  auto* output = static_cast<std::byte*>(operation.output);
  FakeTransfers transfers(rendezvous_, rank_, ranks_, aborted_);
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    transfers.send(other, tag_of(operation), operation.input, bytes);
    transfers.receive(other, tag_of(operation), output + static_cast<std::size_t>(other) * bytes, bytes);
  }
  const Outcome outcome = finish(transfers);
  if (outcome == Outcome::done)
    move_bytes(output + static_cast<std::size_t>(rank_) * bytes, operation.input, bytes);
  return outcome;
}

Outcome FakeWork::messages(const std::vector<FakeOperation>& operations) {
  FakeTransfers transfers(rendezvous_, rank_, ranks_, aborted_);
  std::deque<const FakeOperation*> to_itself;
  for (const auto& operation : operations) {
    if (!is_message(operation)) continue;
    const std::size_t bytes = operation.count * fake_size_of(operation.type);
    if (operation.root == rank_) {
      if (operation.kind == FakeKind::send) to_itself.push_back(&operation);
    } else if (operation.kind == FakeKind::send) {
      transfers.send(operation.root, tag_of(operation), operation.input, bytes);
    } else {
      transfers.receive(operation.root, tag_of(operation), operation.output, bytes);
    }
  }
  const Outcome outcome = finish(transfers);
  for (const auto& operation : operations) {
    if (operation.kind != FakeKind::recv || operation.root != rank_ || to_itself.empty()) continue;
    move_bytes(operation.output, to_itself.front()->input, operation.count * fake_size_of(operation.type));
    to_itself.pop_front();
  }
  return outcome;
}

}  // namespace hora
