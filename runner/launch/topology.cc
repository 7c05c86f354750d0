// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/topology.h"

#include "runner/launch/process.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <type_traits>

namespace hora::hrun {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;
using CpuSet = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, Destroy>;

Topology make_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) fail("cannot describe this machine (hwloc)");
  return Topology(topology);
}

/// The cores with a CPU of the set, in the order of the machine's tree, where neighbours share most.
std::vector<Core> cores_within(hwloc_topology_t topology, hwloc_const_cpuset_t allowed) {
  // Some virtual machines tell of no cores; there a hardware thread counts as one.
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  std::vector<Core> cores;
  const CpuSet usable(hwloc_bitmap_alloc());
  for (hwloc_obj_t object = hwloc_get_next_obj_by_type(topology, type, nullptr); object != nullptr;
       object = hwloc_get_next_obj_by_type(topology, type, object)) {
    hwloc_bitmap_and(usable.get(), object->cpuset, allowed);
    Core core;
    for (int cpu = hwloc_bitmap_first(usable.get()); cpu >= 0; cpu = hwloc_bitmap_next(usable.get(), cpu))
      core.cpus.push_back(cpu);
    core.node = std::max(0, hwloc_bitmap_first(object->nodeset));
    if (!core.cpus.empty()) cores.push_back(std::move(core));
  }
  return cores;
}

}  // namespace

std::vector<Core> cores_here() {
  const Topology topology = make_topology();
  if (hwloc_topology_load(topology.get()) != 0) fail("cannot describe this machine (hwloc)");
  const CpuSet allowed(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology.get(), allowed.get(), HWLOC_CPUBIND_THREAD) != 0)
    fail("cannot tell on which CPUs hrun may run");
  return cores_within(topology.get(), allowed.get());
}

std::vector<Core> cores_of(const std::string& description, const std::vector<int>& allowed) {
  const Topology topology = make_topology();
  if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0 ||
      hwloc_topology_load(topology.get()) != 0)
    fail(fmt::format("'{}' describes no machine", description));
  const CpuSet set(hwloc_bitmap_alloc());
  for (const int cpu : allowed) hwloc_bitmap_set(set.get(), static_cast<unsigned>(cpu));
  if (allowed.empty()) hwloc_bitmap_fill(set.get());
  return cores_within(topology.get(), set.get());
}

}  // namespace hora::hrun
