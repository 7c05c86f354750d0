// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/communicator.h"

#include "core/backend/nccl/poll_deadline.h"
#include "core/backend/nccl/returns_within.h"
#include "core/base/half.h"
#include "core/base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>

namespace hora::nccl {
namespace {

constexpr std::size_t kMostOps = 16;

ncclConfig_t configuration() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // Then no call can hang in a dead rank, and any can be stopped. The price: NCCL starts a thread for each
  // call or group of calls. On an H100 with NCCL 2.28 a call takes 140 to 180 us of the host, and 16 to 60 us
  // else.
  config.blocking = 0;
  config.splitShare = 1;  // smaller communicators use this one's channels and buffers
  return config;
}

bool taken(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

/// A factor as an element of this type.
std::array<std::byte, sizeof(double)> scalar(ncclDataType_t type, double factor) {
  std::array<std::byte, sizeof(double)> bytes{};
  const auto single = static_cast<float>(factor);
  const std::uint16_t half = type == ncclFloat16 ? float16_from(single) : bfloat16_from(single);
  if (type == ncclFloat64) std::memcpy(bytes.data(), &factor, sizeof factor);
  if (type == ncclFloat32) std::memcpy(bytes.data(), &single, sizeof single);
  if (type == ncclFloat16 || type == ncclBfloat16) std::memcpy(bytes.data(), &half, sizeof half);
  return bytes;
}

}  // namespace

void Communicator::init(const NcclId& id, int place, int places) {
  context_.stop_flag->check();
  place_ = place;
  places_ = places;
  const cuda::CurrentContext current(context());
  ncclUniqueId unique{};
  static_assert(sizeof unique == sizeof id);
  std::memcpy(&unique, id.data(), sizeof unique);
  ncclConfig_t config = configuration();
  note_memory([&] {
    settle("ncclCommInitRankConfig", nccl().init_rank_config(&native_, places, unique, place, &config));
  });
}

void Communicator::split_from(Communicator& parent, int place, int places) {
  context_.stop_flag->check();
  place_ = place;
  places_ = places;
  const bool member = place >= 0;
  const cuda::CurrentContext current(context());
  ncclConfig_t config = configuration();
  note_memory([&] {
    const ncclResult_t result =
        nccl().split(parent.native_, member ? 0 : NCCL_SPLIT_NOCOLOR, member ? place : 0, &native_, &config);
    parent.settle("ncclCommSplit", result == ncclSuccess ? ncclInProgress : result);
    if (!member) return;
    await_native(parent);
    settle("ncclCommSplit", ncclInProgress);
  });
}

// Unlike NCCL's other calls ncclCommSplit returns ncclSuccess while it is still being carried out: only the
// parent says when it has been. A thread of NCCL's writes the pointer to the child when that is there, which
// may be a moment later.
void Communicator::await_native(Communicator& parent) {
  PollDeadline deadline(*context_.stop_flag, context_.options.call_timeout, about("ncclCommSplit"));
  try {
    while (native() == nullptr) {
      parent.check();
      deadline.pause();
    }
  } catch (const Error& error) {
    context_.stop_flag->set(error.status());
    throw;
  }
}

void Communicator::note_memory(const std::function<void()>& call) {
  const auto before = static_cast<std::ptrdiff_t>(context_.gpu->free_memory());
  call();
  const std::ptrdiff_t taken = before - static_cast<std::ptrdiff_t>(context_.gpu->free_memory());
  if (taken <= 0) return;  // others have given back more
  taken_ += taken;
  context_.gpu->count_nccl(taken);
}

// NCCL must know of no memory any more, and of no operation, when it is told to end.
bool Communicator::close() noexcept {
  if (native_ == nullptr) return true;
  try {
    context_.stop_flag->check();
    const cuda::CurrentContext current(context());
    for (const auto& [data, known] : known_) deregister_block(known);
    known_.clear();
    while (!ops_.empty()) {
      settle("ncclRedOpDestroy", nccl().destroy_op(ops_.front().op, native_));
      ops_.pop_front();
    }
    settle("ncclCommFinalize", nccl().finalize(native_));
    destroy();
    return true;
  } catch (const std::exception& error) {
    log(LogLevel::warning, fmt::format("a communicator could not be ended: {}", error.what()));
    return false;
  }
}

// Unlike all other calls this one blocks: NCCL's thread that serves other ranks of the host goes when they
// have closed their ends, which may be long after this. Nothing is on streams, and NCCL knows of no memory.
void Communicator::destroy() {
  const auto result = std::make_shared<std::atomic<ncclResult_t>>(ncclSuccess);
  const bool ended =
      returns_within(context_.options.destroy_timeout, [context = context_, native = native_, result] {
        cuda::in_context(*context.gpu->context(), [&] { *result = context.nccl->functions.destroy(native); });
      });
  if (ended && !taken(*result)) finish("ncclCommDestroy", *result);
  native_ = nullptr;
  if (ended) return context_.gpu->count_nccl(-taken_);
  log(LogLevel::warning,
      fmt::format(
          "{} has not returned after {} ms, as other ranks of this host have not got there; it goes on "
          "by itself, and its memory is given back then",
          about("ncclCommDestroy"), context_.options.destroy_timeout.count()));
}

void Communicator::forget() {
  native_ = nullptr;
  context_.gpu->count_nccl(-taken_);
  ops_.clear();
  known_.clear();
}

void Communicator::check() {
  if (native_ == nullptr) return;
  ncclResult_t result = ncclSuccess;
  const ncclResult_t asked = nccl().get_async_error(native_, &result);
  if (!taken(asked)) result = asked;
  if (!taken(result)) finish(last_, result);
}

void Communicator::run(const char* name, const std::function<ncclResult_t(ncclComm_t)>& call) {
  context_.stop_flag->check();
  const cuda::CurrentContext current(context());
  settle(name, call(native_));
}

void Communicator::run_group(const char* name, const std::function<void(ncclComm_t, const Take&)>& calls) {
  context_.stop_flag->check();
  const cuda::CurrentContext current(context());
  const ncclResult_t started = nccl().group_start();
  if (started != ncclSuccess) finish("ncclGroupStart", started);
  ncclResult_t first = ncclSuccess;
  calls(native_, [&](ncclResult_t result) {
    if (taken(first) && !taken(result)) first = result;
  });
  const ncclResult_t ended = nccl().group_end();  // also if a call failed: the group must not stay open
  if (!taken(first)) finish(name, first);
  if (!taken(ended)) finish("ncclGroupEnd", ended);
  settle(name, ended);
}

ncclRedOp_t Communicator::multiplied_sum(ncclDataType_t type, double factor) {
  const auto same = [&](const Multiplied& one) { return one.type == type && one.factor == factor; };
  const auto found = std::find_if(ops_.begin(), ops_.end(), same);
  if (found != ops_.end()) {
    ops_.splice(ops_.begin(), ops_, found);
    return ops_.front().op;
  }
  if (ops_.size() == kMostOps) {  // NCCL needs it no longer than until the call that uses it has been taken
    const ncclRedOp_t oldest = ops_.back().op;
    ops_.pop_back();
    run("ncclRedOpDestroy", [&](ncclComm_t native) { return nccl().destroy_op(oldest, native); });
  }
  auto element = scalar(type, factor);
  ncclRedOp_t op = ncclSum;
  run("ncclRedOpCreatePreMulSum", [&](ncclComm_t native) {
    return nccl().create_pre_mul_sum(&op, element.data(), type, ncclScalarHostImmediate, native);
  });
  ops_.push_front({type, factor, op});
  return op;
}

void Communicator::meet(const void* data) {
  if (nccl().register_memory == nullptr) return;
  const auto block = context_.memory->find(data);
  if (!block || known_.count(block->data()) != 0) return;
  Known& known = known_[block->data()];  // stays in its place: a thread of NCCL's may write to it
  known.block = block;
  register_block(known);
}

// Where GPUs do not reach each other's memory NCCL makes no window, and says ncclSuccess.
void Communicator::register_block(Known& known) {
  const cuda::CurrentContext current(context());
  NcclBlock& block = *known.block;
  if (nccl().register_window != nullptr && !block.users()) {
    settle("ncclCommWindowRegister", nccl().register_window(native_, block.data(), block.bytes(),
                                                            &known.window, NCCL_WIN_COLL_SYMMETRIC));
  }
  if (known.window != nullptr) return;
  settle("ncclCommRegister", nccl().register_memory(native_, block.data(), block.bytes(), &known.handle));
}

void Communicator::deregister_block(const Known& known) {
  if (known.window != nullptr)
    settle("ncclCommWindowDeregister", nccl().deregister_window(native_, known.window));
  if (known.handle != nullptr) settle("ncclCommDeregister", nccl().deregister_memory(native_, known.handle));
}

bool Communicator::knows_of_users(const void* data) const {
  if (known_.empty()) return false;
  const auto block = context_.memory->find(data);
  return block != nullptr && block->users() && known_.count(block->data()) != 0;
}

void Communicator::part(std::vector<std::shared_ptr<NcclBlock>>& parted) {
  const std::uint64_t releases = context_.memory->releases();
  if (releases == releases_) return;
  releases_ = releases;
  for (auto next = known_.begin(); next != known_.end();) {
    const auto current = next++;
    const Known& known = current->second;
    if (known.window != nullptr || !known.block->released()) continue;
    const cuda::CurrentContext entered(context());
    deregister_block(known);
    parted.push_back(known.block);
    known_.erase(current);
  }
}

void Communicator::settle(const char* name, ncclResult_t result) {
  last_ = name;
  if (result == ncclSuccess) return;
  if (result != ncclInProgress) finish(name, result);
  PollDeadline deadline(*context_.stop_flag, context_.options.call_timeout, about(name));
  try {
    while (true) {
      const ncclResult_t asked = nccl().get_async_error(native_, &result);
      if (!taken(asked)) result = asked;
      if (result != ncclInProgress) break;
      deadline.pause();
    }
  } catch (const Error& error) {
    context_.stop_flag->set(error.status());
    throw;
  }
  if (result != ncclSuccess) finish(name, result);
}

void Communicator::finish(const char* name, ncclResult_t result) {
  const char* last = nccl().get_last_error(native_);
  const std::string more = last != nullptr && *last != '\0' ? fmt::format(" ({})", last) : "";
  const Error error(Code::aborted, fmt::format("{} failed: {}{}; NCCL_DEBUG=WARN makes NCCL say more",
                                               about(name), nccl().get_error_string(result), more));
  context_.stop_flag->set(error.status());
  throw Error(error);
}

std::string Communicator::about(const char* name) const {
  return fmt::format("{} (rank {} of {}, on cuda:{})", name, place_, places_, context_.gpu->index());
}

}  // namespace hora::nccl
