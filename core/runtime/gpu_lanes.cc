// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/gpu_lanes.h"

#include "core/base/log.h"
#include "core/base/machine.h"
#include "core/base/memory.h"
#include "core/comm/gpu_hierarchical.h"
#include "core/device/await.h"

#include <fmt/format.h>

namespace hora {
namespace {

constexpr std::chrono::milliseconds kPatience{2'000};  // for a GPU to end what was aborted

/// Whether NCCL can do all of an operation's work; else the host does it.
bool nccl_takes(const Request& request) {
  if (request.operation == Operation::scan || request.op == ReduceOp::adasum) return false;
  const bool reduces = request.operation == Operation::allreduce ||
                       request.operation == Operation::reducescatter ||
                       request.operation == Operation::reduce;
  // The divisor of an average is known later, and is one for those that are alone only.
  const int divisor = request.op == ReduceOp::average ? 2 : 1;
  return !reduces ||
         nccl_reduces({request.wire, ReduceOp::sum, request.prescale, request.postscale, divisor});
}

}  // namespace

struct GpuLanes::Party {
  GpuPlane plane = GpuPlane::staged;
  Status refused;  // not ok: no plane could be had
  std::optional<Lane> staged;
  std::optional<Lane> fast;  // NCCL's, or hierarchical
  std::optional<Executor> by_host;
  std::optional<Executor> by_nccl;
};

GpuLanes::GpuLanes(OwnGpu& own, const Config& config, TensorTable& table, Recorder& recorder, Tracer& tracer,
                   Alarm& alarm, std::function<void(const Status&)> on_failure)
    : own_(own),
      config_(config),
      table_(table),
      recorder_(recorder),
      tracer_(tracer),
      alarm_(alarm),
      completer_(config.operation_timeout, [this, on_failure = std::move(on_failure)](const Status& why) {
        {
          const std::lock_guard lock(mutex_);
          if (failure_.ok()) failure_ = why;
        }
        interrupt(why);
        on_failure(why);
      }) {}

GpuLanes::~GpuLanes() {
  {
    const std::lock_guard lock(mutex_);
    nccl_ = nullptr;
  }
  if (!left_behind_) {
    while (!parties_.empty()) let_go(parties_.begin()->first);
    while (!splits_.empty()) let_go(splits_.begin()->first);
    return;
  }
  for (auto& [group, party] : parties_) {
    if (party->staged) alarm_.forget(*party->staged->collective);
    if (party->fast) alarm_.forget(*party->fast->collective);
    keep_for_ever(std::shared_ptr<Party>(std::move(party)));
  }
  for (auto& [group, collective] : splits_) {
    alarm_.forget(*collective);
    keep_for_ever(std::shared_ptr<Collective>(std::move(collective)));
  }
  keep_for_ever(std::shared_ptr<Machine>(std::move(machine_)));
}

Executor* GpuLanes::executor(const Members& members, Lane& host, const Request& request) {
  Party& own = party(members, host);
  if (!own.refused.ok()) return nullptr;
  return own.by_nccl && nccl_takes(request) ? &*own.by_nccl : &*own.by_host;
}

const Status& GpuLanes::refusal(int group) const { return parties_.at(group)->refused; }

GpuLanes::Party& GpuLanes::party(const Members& members, Lane& host) {
  const auto known = parties_.find(members.group);
  if (known != parties_.end()) return *known->second;
  Party& party = *parties_.emplace(members.group, std::make_unique<Party>()).first->second;
  const auto seats = exchange_seats(*host.collective, members.place, static_cast<int>(members.ranks.size()),
                                    own_seat(members.place));
  try {
    const GpuChoice choice = choose_gpu_plane(config_.gpu_operations, seats, members.ranks);
    party.plane = choice.plane;
    if (!choice.note.empty() && members.place == 0) log(LogLevel::warning, choice.note);
  } catch (const Error& error) {
    party.refused = error.status();
    return party;
  }
  connect(party, members, host, seats);
  return party;
}

GpuSeat GpuLanes::own_seat(int place) {
  GpuSeat seat;
  seat.machine = config_.nccl_host_id.empty() ? boot_id() + host_name() : config_.nccl_host_id;
  try {
    open();
  } catch (const Error& error) {
    seat.index = -1;
    seat.why = error.what();
    return seat;
  }
  seat.gpu = machine_->gpu->identity();
  seat.index = machine_->gpu->index();
  if (config_.gpu_operations == "staged") return seat;
  try {
    const NcclLibrary library = own_.module().library(config_.nccl_library);
    log(LogLevel::info, fmt::format("NCCL {} from {}", nccl_version(library.version), library.path));
    if (place == 0) seat.id = own_.module().make_id();
    seat.nccl = library.version;
  } catch (const Error& error) {
    seat.why = error.what();
  }
  return seat;
}

void GpuLanes::open() {
  if (machine_) return;
  auto machine = std::make_unique<Machine>();
  machine->gpu = own_.open();
  machine->stream = machine->gpu->make_stream();
  machine_ = std::move(machine);
}

void GpuLanes::connect(Party& party, const Members& members, Lane& host, const std::vector<GpuSeat>& seats) {
  Machine& machine = *machine_;
  const auto places = static_cast<int>(members.ranks.size());
  auto staged =
      std::make_unique<Staged>(machine.gpu, *machine.stream, *host.collective, members.place, places);
  alarm_.watch(*staged);
  GpuSide side{machine.gpu, &completer_, staged.get()};
  party.staged = Lane{machine.stream, std::move(staged), true};
  party.by_host.emplace(*party.staged, table_, recorder_, tracer_, members, config_.gpu_fusion_threshold,
                        side);
  if (party.plane == GpuPlane::staged) return;

  if (!machine.nccl) {
    NcclOptions options;
    options.call_timeout = config_.start_timeout;
    options.float32_sums = config_.float32_sums;
    machine.nccl = own_.module().make_lane(machine.gpu, *machine.stream, options);
    const std::lock_guard lock(mutex_);
    nccl_ = machine.nccl.get();
    if (interrupted_) nccl_->stop(*interrupted_);
  }
  std::unique_ptr<Collective> fast;
  if (const auto split = splits_.find(members.group); split != splits_.end()) {
    fast = std::move(split->second);
    splits_.erase(split);
  } else {
    fast = machine.nccl->connect(seats.front().id, members.place, places);
    alarm_.watch(*fast);
  }
  if (party.plane == GpuPlane::hierarchical) {
    alarm_.forget(*fast);
    fast = make_gpu_hierarchical(std::move(fast), machine.gpu, *machine.stream, *host.collective,
                                 hosts_of(machines_of(seats), members.place));
    alarm_.watch(*fast);
  }
  side.staged = nullptr;
  party.fast = Lane{machine.stream, std::move(fast), true};
  party.by_nccl.emplace(*party.fast, table_, recorder_, tracer_, members, config_.gpu_fusion_threshold, side);
}

void GpuLanes::add_group(int group, const std::vector<int>& ranks) {
  const auto world = parties_.find(kWorld);
  if (world == parties_.end() || !world->second->fast) return;
  auto split = world->second->fast->collective->split(ranks);
  if (!split) return;
  alarm_.watch(*split);
  splits_.emplace(group, std::move(split));
}

void GpuLanes::remove_group(int group) {
  drain();
  let_go(group);
}

/// Of a group that nothing is under way in.
void GpuLanes::let_go(int group) {
  if (const auto split = splits_.find(group); split != splits_.end()) {
    alarm_.forget(*split->second);
    splits_.erase(split);
  }
  const auto party = parties_.find(group);
  if (party == parties_.end()) return;
  for (const auto* lane : {&party->second->fast, &party->second->staged}) {
    if (*lane) alarm_.forget(*(*lane)->collective);
  }
  parties_.erase(party);
}

void GpuLanes::interrupt(const Status& why) {
  completer_.interrupt(why);
  const std::lock_guard lock(mutex_);
  if (!interrupted_) interrupted_ = why;
  if (nccl_ != nullptr) nccl_->stop(why);
}

bool GpuLanes::busy() const { return !completer_.idle(); }

void GpuLanes::check() {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) throw Error(failure_);
  }
  if (machine_ && machine_->nccl) machine_->nccl->check();
}

void GpuLanes::drain() {
  const Status ended = completer_.drain();
  if (!ended.ok()) throw Error(ended);
}

void GpuLanes::fail(const Status& why) noexcept {
  if (!machine_) return;
  completer_.fail(why);  // first: what is aborted has ended for the GPU
  if (machine_->nccl && !machine_->nccl->abort()) left_behind_ = true;
  if (!completer_.end(kPatience)) left_behind_ = true;
  if (left_behind_) return;
  try {  // what was not in a flight yet
    const TimePoint end = Clock::now() + kPatience;
    await(machine_->stream->mark().get(), [&] {
      if (Clock::now() > end) throw Error(Code::timeout, "the GPU does not end what it was given");
    });
  } catch (const std::exception& error) {
    log(LogLevel::warning, error.what());
    left_behind_ = true;
  }
}

}  // namespace hora
