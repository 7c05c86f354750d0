// SPDX-License-Identifier: Apache-2.0
// Times allreduce as nccl-tests does, against what the memory allows and, if asked to, against MPI.
#include "test/bench/fingerprint.h"
#include "test/bench/hosts.h"
#include "test/bench/list.h"
#include "test/bench/measure.h"
#include "test/bench/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace hora::bench {
namespace {

Group group_of(Collective& collective, const Control& control, bool one_clock) {
  const auto ranks = static_cast<std::size_t>(control.size());
  return {control.rank(), control.size(), one_clock, [&collective] { collective.barrier(); },
          [&collective, ranks](std::span<const double> mine) {
            std::vector<double> all(mine.size() * ranks);
            collective.allgather(mine.data(), all.data(), std::vector<std::size_t>(ranks, mine.size_bytes()));
            return all;
          }};
}

Group group_of(Runtime& runtime) {
  const auto gather = [&runtime](std::span<const double> mine) {
    std::vector<double> all;
    Entry entry;
    entry.operation = Operation::allgather;
    entry.name = "bench.gather";
    entry.dtype = entry.wire = DType::float64;
    entry.shape = {static_cast<std::int64_t>(mine.size())};
    entry.input = mine.data();
    entry.allocate = [&](const std::vector<std::int64_t>& shape) {
      all.resize(static_cast<std::size_t>(shape.front()));
      return all.data();
    };
    runtime.submit(std::move(entry)).wait();
    return all;
  };
  const auto barrier = [&runtime] {
    Entry entry;
    entry.operation = Operation::barrier;
    entry.name = "bench.barrier";
    runtime.submit(std::move(entry)).wait();
  };
  return {runtime.rank(), runtime.size(), true, barrier, gather};
}

std::size_t run(Contenders contenders, const Group& group, const Options& options) {
  std::erase_if(contenders, [&](const auto& one) { return !is_wanted(options, one->name()); });
  if (contenders.empty()) throw Error(Code::invalid_argument, "--only: no such contender here");
  std::vector<std::string> names;
  for (const auto& contender : contenders) names.push_back(contender->name());
  Table table(options, names, group.ranks);
  if (group.rank == 0) table.print_header();
  for (std::size_t bytes = options.begin; bytes <= options.end; bytes *= options.factor) {
    const Row row = measure(contenders, group, options, bytes);
    if (group.rank == 0) table.print(row);
  }
  if (group.rank == 0 && !options.json.empty()) table.write_json(options.json);
  return table.wrong();
}

void add(Contenders& contenders, Contenders more) {
  std::move(more.begin(), more.end(), std::back_inserter(contenders));
}

std::size_t run_runtime(const Config& config, Peer* peer, const Options& options) {
  Runtime runtime(config);
  auto contenders =
      options.list.empty() ? runtime_contenders(runtime, options) : list_contenders(runtime, options);
  if (peer != nullptr) add(contenders, peer_contenders(*peer, options));
  return run(std::move(contenders), group_of(runtime), options);
}

std::size_t run_hosts(const Config& config, Peer* peer, const Options& options) {
  World hosts = connect_hosts(config);
  auto contenders = hosts_contenders(hosts, config, options);
  if (peer != nullptr) add(contenders, peer_contenders(*peer, options));
  const Group group = group_of(*hosts.lane.collective, *hosts.control, false);
  const std::size_t wrong = run(std::move(contenders), group, options);
  hosts.lane.collective->barrier();
  hosts.control->on_loss({});
  return wrong;
}

std::size_t run_plane(const Config& config, Peer* peer, const Options& options) {
  Plane plane = connect_plane(config);
  auto contenders = plane_contenders(plane, options);
  if (peer != nullptr) {
    if (is_wanted(options, "hora/mpi")) contenders.push_back(mpi_plane_contender(plane, config, options));
    add(contenders, peer_contenders(*peer, options));
  }
  const Group group = group_of(*plane.collective, *plane.world.control, true);
  const std::size_t wrong = run(std::move(contenders), group, options);
  plane.collective->barrier();
  plane.world.control->on_loss({});
  return wrong;
}

std::size_t compare(const Options& options) {
  const std::unique_ptr<Peer> peer = options.mpi ? make_mpi_peer() : nullptr;
  const Config config = peer ? peer->config() : Config::from_environment();
  if (options.level == Level::runtime) return run_runtime(config, peer.get(), options);
  if (options.level == Level::hosts) return run_hosts(config, peer.get(), options);
  return run_plane(config, peer.get(), options);
}

/// The least work that a job does: for benchmarks that time whole jobs.
void reduce_first(const Options& options) {
  float one = 1;
  if (options.mpi) {
    make_mpi_peer()->allreduce(&one, 1, DType::float32, ReduceOp::sum);
    return;
  }
  Runtime runtime = init();
  Entry entry;
  entry.name = "first";
  entry.input = entry.output = &one;
  runtime.submit(std::move(entry)).wait();
}

/// The elements that were wrong.
std::size_t run(const Options& options) {
  if (options.act == Act::allreduce) return compare(options);
  if (options.act == Act::first)
    reduce_first(options);
  else
    print_fingerprint();
  return 0;
}

}  // namespace
}  // namespace hora::bench

int main(int argc, char** argv) {
  try {
    const auto options = hora::bench::parse_options(argc, argv);
    return hora::bench::run(options) == 0 ? 0 : 1;
  } catch (const hora::Error& error) {
    fmt::print(stderr, "hora_bench: {}\n", error.what());
    if (error.code() != hora::Code::invalid_argument) return 1;
    fmt::print(stderr, "{}", hora::bench::usage());
    return 2;
  }
}
