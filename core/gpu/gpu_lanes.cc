// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/gpu_lanes.h"

#include "core/base/log.h"
#include "core/base/machine.h"
#include "core/base/memory.h"
#include "core/gpu/gpu_hierarchical.h"

#include <fmt/format.h>

#include <utility>

namespace hora {
namespace {

// Together less than the time that hrun gives a rank whose generation ends.
constexpr std::chrono::milliseconds kNcclAbortTimeout{2'500};  // for ncclCommAbort to return
constexpr std::chrono::milliseconds kAbortTimeout{2'000};      // for the GPU to end what was aborted

void forget(AbortBroadcaster& aborter, const GpuLanes::OfGroup& lanes) {
  for (const auto* each : {&lanes.direct, &lanes.by_host}) {
    if (*each) aborter.forget(*(*each)->lane.collective);
  }
}

}  // namespace

GpuLanes::GpuLanes(OwnGpu& own, const Config& config, AbortBroadcaster& aborter, FlightNotices notices,
                   bool resumes)
    : own_(own),
      config_(config),
      aborter_(aborter),
      resumes_(resumes),
      gpu_wait_{config.operation_timeout},
      completer_(config.operation_timeout, {[this, failed = std::move(notices.failed)](const Status& why) {
                                              {
                                                const std::lock_guard lock(mutex_);
                                                if (failure_.ok()) failure_ = why;
                                              }
                                              interrupt(why);
                                              failed(why);
                                            },
                                            std::move(notices.ended)}) {}

GpuLanes::~GpuLanes() {
  stop_connecting({Code::aborted, "the job has ended"});
  {
    const std::lock_guard lock(mutex_);
    nccl_ = nullptr;
  }
  while (!lanes_.empty()) remove_group(lanes_.begin()->first);
  if (!left_behind_) return;
  for (auto& [group, collective] : splits_) keep_for_ever(std::shared_ptr<Collective>(std::move(collective)));
  keep_for_ever(std::shared_ptr<Machine>(std::move(machine_)));
}

GpuLanes::OfGroup& GpuLanes::of(const Members& members, Lane& host, bool has_graphs) {
  const auto known = lanes_.find(members.group);
  if (known != lanes_.end()) return *known->second;
  OfGroup& lanes = *lanes_.emplace(members.group, std::make_unique<OfGroup>()).first->second;
  auto identities = exchange_identities(*host.collective, members.place,
                                        static_cast<int>(members.ranks.size()), own_identity());
  NcclId id{};
  const auto choice = choose(lanes, members, host, identities, id);
  if (!choice) return lanes;
  if (!choice->note.empty() && members.place == 0) log(LogLevel::warning, choice->note);
  make_staged(lanes, members, host);
  if (choice->plane == GpuPlane::staged) return lanes;
  make_direct(lanes, members, host, connected_by_nccl(choice->plane, identities, members.place),
              choice->plane, id, has_graphs);
  return lanes;
}

/// Whether the group has a communicator of its own already, which goes between machines as the world's does.
bool GpuLanes::has_split(const Members& members, GpuPlane plane) const {
  return plane == GpuPlane::nccl && splits_.contains(members.group);
}

// NCCL has a thread and a port for each id until all its ranks have come: one is made when they will.
std::optional<GpuChoice> GpuLanes::choose(OfGroup& lanes, const Members& members, Lane& host,
                                          std::vector<GpuIdentity>& identities, NcclId& id) {
  const auto choose = [&]() -> std::optional<GpuChoice> {
    try {
      return choose_gpu_plane(config_.gpu_operations, identities, members.ranks, config_.encryption == "all");
    } catch (const Error& error) {
      lanes.refused = error.status();
      return std::nullopt;
    }
  };
  auto choice = choose();
  if (!choice || choice->plane == GpuPlane::staged) return choice;
  if (identities.size() == 1 || has_split(members, choice->plane)) return choice;
  const Hosts parts = connected_by_nccl(choice->plane, identities, members.place);
  const SharedId shared = share_id(*host.collective, parts, own_.module().make_id);
  id = shared.id;
  if (shared.why.empty()) return choice;
  GpuIdentity& failed = identities[static_cast<std::size_t>(shared.failed)];
  failed.nccl = 0;
  failed.why = shared.why;
  return choose();
}

GpuIdentity GpuLanes::own_identity() {
  GpuIdentity identity;
  identity.machine = config_.nccl_host_id.empty() ? boot_id() + host_name() : config_.nccl_host_id;
  try {
    open();
  } catch (const Error& error) {
    identity.index = -1;
    identity.why = error.what();
    return identity;
  }
  identity.gpu = machine_->gpu->identity();
  identity.location = machine_->gpu->location();
  identity.index = machine_->gpu->index();
  if (config_.gpu_operations == "staged") return identity;
  try {
    const NcclLibrary library = own_.module().library(config_.nccl_library, config_.packaged_nccl);
    log(LogLevel::info, fmt::format("NCCL {} from {}", nccl_version(library.version), library.path));
    identity.nccl = library.version;
  } catch (const Error& error) {
    identity.why = error.what();
  }
  return identity;
}

void GpuLanes::open() {
  if (machine_) return;
  auto machine = std::make_unique<Machine>();
  machine->gpu = own_.open();
  machine->stream = machine->gpu->make_stream();
  machine_ = std::move(machine);
}

void GpuLanes::make_staged(OfGroup& lanes, const Members& members, Lane& host) {
  Machine& machine = *machine_;
  auto staged = std::make_unique<Staged>(machine.gpu, *machine.stream, *host.collective, members.place,
                                         static_cast<int>(members.ranks.size()), &gpu_wait_);
  aborter_.watch(*staged);
  const GpuSide side{machine.gpu, &completer_, staged.get(), &gpu_wait_};
  lanes.by_host = GpuLane{Lane{machine.stream, std::move(staged), true}, side};
}

/// NCCL's waiting ends by `interrupt`, so the abort broadcaster need not know of communicators that are still
/// being made.
void GpuLanes::make_direct(OfGroup& lanes, const Members& members, Lane& host, const Hosts& parts,
                           GpuPlane plane, const NcclId& id, bool has_graphs) {
  if (!machine_->nccl) open_nccl();
  const auto places = static_cast<int>(members.ranks.size());
  if (resumes_ && members.group == kWorld &&
      all_agree(*host.collective, places, !uses_nccl() && !has_graphs)) {
    pending_ = std::make_unique<PendingConnection>(plane, parts, *machine_->nccl, id);
    return;
  }
  if (pending_) {
    pending_->connection.wait();
    check();
  }
  std::unique_ptr<Collective> direct;
  if (has_split(members, plane)) {
    direct = std::move(splits_.extract(members.group).mapped());
  } else {
    direct =
        machine_->nccl->connect(id, static_cast<int>(parts.place), static_cast<int>(parts.here().size()));
  }
  set_direct(std::move(direct), lanes, host, parts, plane);
}

bool GpuLanes::uses_nccl() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const auto& each) { return each.second->direct.has_value(); });
}

bool GpuLanes::finish_connecting(const Members& members, Lane& host) {
  check();
  if (!all_agree(*host.collective, static_cast<int>(members.ranks.size()), pending_->connection.has_ended()))
    return false;
  const auto pending = std::exchange(pending_, nullptr);
  set_direct(pending->connection.take(), *lanes_.at(members.group), host, pending->parts, pending->plane);
  return true;
}

void GpuLanes::stop_connecting(const Status& why) noexcept {
  if (!pending_) return;
  machine_->nccl->stop(why);
  pending_.reset();
}

void GpuLanes::set_direct(std::unique_ptr<Collective> direct, OfGroup& lanes, Lane& host, const Hosts& parts,
                          GpuPlane plane) {
  Machine& machine = *machine_;
  if (plane == GpuPlane::hierarchical) {
    direct = make_gpu_hierarchical(std::move(direct), machine.gpu, *machine.stream, *host.collective, parts,
                                   *lanes.by_host->side.staged, &gpu_wait_);
  }
  lanes.plane = plane;
  aborter_.watch(*direct);
  lanes.direct = GpuLane{
      Lane{machine.stream, std::move(direct), true},
      GpuSide{machine.gpu, &completer_, nullptr, plane == GpuPlane::hierarchical ? &gpu_wait_ : nullptr}};
}

void GpuLanes::open_nccl() {
  NcclOptions options;
  options.call_timeout = config_.start_timeout;
  options.abort_timeout = kNcclAbortTimeout;
  options.float32_sums = config_.float32_sums;
  machine_->nccl = own_.module().make_lane(machine_->gpu, *machine_->stream, options);
  const std::lock_guard lock(mutex_);
  nccl_ = machine_->nccl.get();
  if (interrupted_) nccl_->stop(*interrupted_);
}

void GpuLanes::add_group(int group, const std::vector<int>& ranks, Collective& host) {
  const auto world = lanes_.find(kWorld);
  if (world == lanes_.end() || !world->second->direct || world->second->plane != GpuPlane::nccl) return;
  // NCCL wants it, and limits its own waits, in which any rank's time for inputs would count.
  drain();
  host.barrier();
  auto split = world->second->direct->lane.collective->split(ranks);
  if (split) splits_.emplace(group, std::move(split));
}

std::shared_ptr<void> GpuLanes::remove_group(int group) {
  auto split = splits_.extract(group);
  auto lanes = lanes_.extract(group);
  if (lanes) forget(aborter_, *lanes.mapped());
  const auto removed =
      std::make_shared<std::pair<decltype(split), decltype(lanes)>>(std::move(split), std::move(lanes));
  if (left_behind_) keep_for_ever(removed);
  return removed;
}

void GpuLanes::interrupt(const Status& why) {
  completer_.interrupt(why);
  const std::lock_guard lock(mutex_);
  if (!interrupted_) interrupted_ = why;
  if (nccl_ != nullptr) nccl_->stop(why);
}

void GpuLanes::check() {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) throw Error(failure_);
  }
  if (pending_) pending_->connection.check();
  if (machine_ && machine_->nccl && (!pending_ || pending_->connection.has_ended())) machine_->nccl->check();
}

void GpuLanes::drain() {
  const Status ended = completer_.drain();
  if (!ended.ok()) throw Error(ended);
}

void GpuLanes::fail(const Status& why) noexcept {
  if (!machine_) return;
  completer_.fail(why);  // first: what is aborted has ended for the GPU
  stop_connecting(why);
  if (machine_->nccl && !machine_->nccl->abort()) left_behind_ = true;
  const TimePoint end = Clock::now() + kAbortTimeout;
  if (!completer_.end(kAbortTimeout)) left_behind_ = true;
  if (left_behind_) return;
  try {
    await_end([&] {  // what was not in a flight yet
      if (Clock::now() > end) throw Error(Code::timeout, "the GPU does not end what it was given");
    });
  } catch (const std::exception& error) {
    log(LogLevel::warning, error.what());
    left_behind_ = true;
  }
}

}  // namespace hora
