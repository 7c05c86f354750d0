// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/lane_communicators.h"

#include "core/backend/nccl/abort_together.h"
#include "core/backend/nccl/poll_deadline.h"
#include "core/base/log.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora::nccl {
namespace {

constexpr std::size_t kWordBytes = 256;

}  // namespace

std::shared_ptr<Communicator> LaneCommunicators::connect(const NcclId& id, int place, int places) {
  begin();
  // Kept from before NCCL hears of it: whatever fails, it is there to be aborted.
  communicators_.push_back(std::make_shared<Communicator>(context_));
  auto made = communicators_.back();
  made->init(id, place, places);
  return made;
}

// NCCL asks for nothing to be under way on a communicator that is split.
std::shared_ptr<Communicator> LaneCommunicators::split(Communicator& parent, int place, int places) {
  begin();
  drain("ncclCommSplit");
  communicators_.push_back(std::make_shared<Communicator>(context_));
  auto made = communicators_.back();
  made->split_from(parent, place, places);
  if (place >= 0) return made;
  communicators_.pop_back();
  return nullptr;
}

void LaneCommunicators::close(const std::shared_ptr<Communicator>& communicator) noexcept {
  if (aborted_ || context_.stop_flag->is_set()) return;  // goes, or has gone, with the others
  try {
    drain("ncclCommFinalize");
  } catch (const Error& error) {
    log(LogLevel::warning, fmt::format("a communicator could not be ended: {}", error.what()));
    return;
  }
  if (!communicator->close()) return;
  communicators_.erase(std::remove(communicators_.begin(), communicators_.end(), communicator),
                       communicators_.end());
}

void LaneCommunicators::check() {
  context_.stop_flag->check();
  for (const auto& communicator : communicators_) communicator->check();
  part_with_memory();
}

bool LaneCommunicators::abort() noexcept {
  context_.stop_flag->set({Code::aborted, "NCCL's communicators have been aborted"});
  if (aborted_) return abort_returned_;
  aborted_ = true;
  abort_returned_ = abort_together(context_, communicators_);
  communicators_.clear();
  if (!abort_returned_) abandon_memory();
  return abort_returned_;
}

// The objects in which NCCL's thread has a share live as long as that thread, and with them all that is kept
// here.
void LaneCommunicators::abandon_memory() {
  context_.memory->abandon();
  for (auto& [event, block] : parted_) context_.memory->keep(std::move(block));
  parted_.clear();
  context_.memory->keep(std::move(scratch_));
  context_.memory->keep(std::move(word_));
  scratch_bytes_ = 0;
}

void LaneCommunicators::begin() {
  context_.stop_flag->check();
  part_with_memory();
}

void LaneCommunicators::part_with_memory() {
  std::vector<std::shared_ptr<NcclBlock>> parted;
  for (const auto& communicator : communicators_) communicator->part(parted);
  for (auto& block : parted) parted_.emplace_back(stream_.mark(), std::move(block));
  const auto reached = [](const auto& one) { return one.first == nullptr || one.first->reached(); };
  parted_.erase(std::remove_if(parted_.begin(), parted_.end(), reached), parted_.end());
}

std::byte* LaneCommunicators::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_.reset();
    scratch_bytes_ = 0;
    scratch_ = context_.gpu->allocate(bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

void* LaneCommunicators::word() {
  if (!word_) word_ = context_.gpu->allocate(kWordBytes);
  return word_.get();
}

void LaneCommunicators::drain(const std::string& before) {
  const auto event = stream_.mark();
  if (event == nullptr) return;
  PollDeadline deadline(*context_.stop_flag, context_.options.call_timeout,
                        fmt::format("what is on cuda:{} before {}", context_.gpu->index(), before));
  while (!event->reached()) deadline.pause();
}

}  // namespace hora::nccl
