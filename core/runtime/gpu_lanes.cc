// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/gpu_lanes.h"

#include "core/base/log.h"
#include "core/base/machine.h"
#include "core/base/memory.h"
#include "core/device/await.h"
#include "core/gpu/gpu_hierarchical.h"

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
      fusion_threshold_(first_thresholds(config).cuda),
      errand_{config.operation_timeout},
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
  while (!parties_.empty()) let_go(parties_.begin()->first);
  if (!left_behind_) return;
  for (auto& [group, collective] : splits_) keep_for_ever(std::shared_ptr<Collective>(std::move(collective)));
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
  auto seats =
      exchange_seats(*host.collective, members.place, static_cast<int>(members.ranks.size()), own_seat());
  NcclId id{};
  const auto choice = choose(party, members, host, seats, id);
  if (!choice) return party;
  if (!choice->note.empty() && members.place == 0) log(LogLevel::warning, choice->note);
  make_staged(party, members, host);
  if (choice->plane != GpuPlane::staged) make_fast(party, members, host, seats, choice->plane, id);
  return party;
}

// NCCL has a thread and a port for each id until all its ranks have come: one is made when they will.
std::optional<GpuChoice> GpuLanes::choose(Party& party, const Members& members, Lane& host,
                                          std::vector<GpuSeat>& seats, NcclId& id) {
  const auto choose = [&]() -> std::optional<GpuChoice> {
    try {
      return choose_gpu_plane(config_.gpu_operations, seats, members.ranks, config_.encryption == "all");
    } catch (const Error& error) {
      party.refused = error.status();
      return std::nullopt;
    }
  };
  auto choice = choose();
  if (!choice || choice->plane == GpuPlane::staged) return choice;
  if (seats.size() == 1 || splits_.contains(members.group)) return choice;
  const SharedId shared = share_id(*host.collective, members.place, own_.module().make_id);
  id = shared.id;
  if (shared.why.empty()) return choice;
  seats.front().nccl = 0;
  seats.front().why = shared.why;
  return choose();
}

GpuSeat GpuLanes::own_seat() {
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
  seat.location = machine_->gpu->location();
  seat.index = machine_->gpu->index();
  if (config_.gpu_operations == "staged") return seat;
  try {
    const NcclLibrary library = own_.module().library(config_.nccl_library, config_.packaged_nccl);
    log(LogLevel::info, fmt::format("NCCL {} from {}", nccl_version(library.version), library.path));
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

void GpuLanes::make_staged(Party& party, const Members& members, Lane& host) {
  Machine& machine = *machine_;
  auto staged = std::make_unique<Staged>(machine.gpu, *machine.stream, *host.collective, members.place,
                                         static_cast<int>(members.ranks.size()), &errand_);
  alarm_.watch(*staged);
  const GpuSide side{machine.gpu, &completer_, staged.get(), &errand_};
  party.staged = Lane{machine.stream, std::move(staged), true};
  party.by_host.emplace(*party.staged, table_, recorder_, tracer_, members, fusion_threshold_, side);
}

/// NCCL's waiting ends by `interrupt`, so the alarm need not know of communicators that are still being made.
void GpuLanes::make_fast(Party& party, const Members& members, Lane& host, const std::vector<GpuSeat>& seats,
                         GpuPlane plane, const NcclId& id) {
  Machine& machine = *machine_;
  if (!machine.nccl) open_nccl();
  std::unique_ptr<Collective> fast;
  if (auto split = splits_.extract(members.group)) {
    fast = std::move(split.mapped());
  } else {
    fast = machine.nccl->connect(id, members.place, static_cast<int>(members.ranks.size()));
  }
  if (plane == GpuPlane::hierarchical) {
    fast = make_gpu_hierarchical(std::move(fast), machine.gpu, *machine.stream, *host.collective,
                                 hosts_of(machines_of(seats), members.place), &errand_);
  }
  alarm_.watch(*fast);
  party.fast = Lane{machine.stream, std::move(fast), true};
  party.by_nccl.emplace(
      *party.fast, table_, recorder_, tracer_, members, fusion_threshold_,
      GpuSide{machine.gpu, &completer_, nullptr, plane == GpuPlane::hierarchical ? &errand_ : nullptr});
}

void GpuLanes::open_nccl() {
  NcclOptions options;
  options.call_timeout = config_.start_timeout;
  options.float32_sums = config_.float32_sums;
  machine_->nccl = own_.module().make_lane(machine_->gpu, *machine_->stream, options);
  const std::lock_guard lock(mutex_);
  nccl_ = machine_->nccl.get();
  if (interrupted_) nccl_->stop(*interrupted_);
}

void GpuLanes::add_group(int group, const std::vector<int>& ranks) {
  const auto world = parties_.find(kWorld);
  if (world == parties_.end() || !world->second->fast) return;
  auto split = world->second->fast->collective->split(ranks);
  if (split) splits_.emplace(group, std::move(split));
}

void GpuLanes::fuse_up_to(std::size_t bytes) {
  fusion_threshold_ = bytes;
  for (auto& [group, party] : parties_) {
    if (party->by_host) party->by_host->fuse_up_to(bytes);
    if (party->by_nccl) party->by_nccl->fuse_up_to(bytes);
  }
}

void GpuLanes::remove_group(int group) {
  drain();
  let_go(group);
}

/// Of what a group has, in which nothing is under way.
void GpuLanes::let_go(int group) {
  splits_.erase(group);
  auto party = parties_.extract(group);
  if (!party) return;
  for (const auto* lane : {&party.mapped()->fast, &party.mapped()->staged}) {
    if (*lane) alarm_.forget(*(*lane)->collective);
  }
  if (left_behind_) keep_for_ever(std::shared_ptr<Party>(std::move(party.mapped())));
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
