// SPDX-License-Identifier: Apache-2.0
// Times allreduce as nccl-tests does, against what the memory allows and, if asked to, against MPI.
#include "test/bench/hosts.h"
#include "test/bench/measure.h"
#include "test/bench/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora::bench {
namespace {

Meeting meeting_over(Collective& collective, const Control& control) {
  const auto ranks = static_cast<std::size_t>(control.size());
  return {control.rank(), control.size(), [&collective] { collective.barrier(); },
          [&collective, ranks](std::span<const double> mine) {
            std::vector<double> all(mine.size() * ranks);
            collective.allgather(mine.data(), all.data(), std::vector<std::size_t>(ranks, mine.size_bytes()));
            return all;
          }};
}

Meeting meeting_over(Runtime& runtime) {
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
  return {runtime.rank(), runtime.size(), barrier, gather};
}

std::size_t run(const Contenders& contenders, const Meeting& meeting, const Options& options) {
  std::vector<std::string> names;
  for (const auto& contender : contenders) names.push_back(contender->name());
  Table table(options, names, meeting.ranks);
  if (meeting.rank == 0) table.print_header();
  for (std::size_t bytes = options.begin; bytes <= options.end; bytes *= options.factor) {
    const Row row = measure(contenders, meeting, options, bytes);
    if (meeting.rank == 0) table.print(row);
  }
  if (meeting.rank == 0 && !options.json.empty()) table.write_json(options.json);
  return table.wrong();
}

std::size_t run(const Options& options) {
  const std::unique_ptr<Peer> peer = options.mpi ? make_mpi_peer() : nullptr;
  const Config config = peer ? peer->config() : Config::from_environment();
  if (options.level == Level::runtime) {
    Runtime runtime(config);
    auto contenders = runtime_contenders(runtime, options);
    if (peer) contenders.push_back(peer_contender(*peer, options));
    return run(contenders, meeting_over(runtime), options);
  }
  if (options.level == Level::hosts) {
    World hosts = connect_hosts(config);
    auto contenders = hosts_contenders(hosts, options);
    if (peer) contenders.push_back(peer_contender(*peer, options));
    const std::size_t wrong = run(contenders, meeting_over(*hosts.lane.collective, *hosts.control), options);
    hosts.lane.collective->barrier();
    hosts.control->on_loss({});
    return wrong;
  }
  Plane plane = connect_plane(config);
  auto contenders = plane_contenders(plane, options);
  if (peer) {
    contenders.push_back(mpi_plane_contender(plane, config, options));
    contenders.push_back(peer_contender(*peer, options));
  }
  const std::size_t wrong = run(contenders, meeting_over(*plane.collective, *plane.world.control), options);
  plane.collective->barrier();
  plane.world.control->on_loss({});
  return wrong;
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
