// SPDX-License-Identifier: Apache-2.0
#include "runner/preflight/probe.h"

#include "core/base/cores.h"
#include "core/join/network.h"
#include "runner/launch/process.h"
#include "runner/preflight/pairing.h"
#include "runner/preflight/preflight_report.h"
#include "runner/preflight/probe_socket.h"

#include <hora/hora.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace hora::hrun {
namespace {

constexpr const char* kProbe = "--probe";                  // and the hosts, as -H takes them
constexpr const char* kArenaProbe = "--probe-arena";       // in the job that a probe starts on its host
constexpr auto kMeasure = std::chrono::milliseconds(250);  // each of latency and both directions
constexpr auto kReach = std::chrono::seconds(5);
constexpr auto kWait = kReach + std::chrono::seconds(2);  // for one who tries that long
constexpr auto kPair = std::chrono::seconds(20);          // for all that two hosts do

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// The bytes of each rank, by rank.
std::vector<Bytes> gather(Runtime& runtime, const Bytes& own) {
  Bytes all;
  Entry entry;
  entry.operation = Operation::allgather;
  entry.name = fmt::format("probe.{}", runtime.next_number());
  entry.dtype = DType::uint8;
  entry.shape = {static_cast<std::int64_t>(own.size())};
  entry.input = own.data();
  entry.allocate = [&](const std::vector<std::int64_t>& shape) {
    all.resize(static_cast<std::size_t>(shape.front()));
    return all.data();
  };
  const Result result = runtime.submit(std::move(entry)).wait();
  std::vector<Bytes> parts;
  auto begin = all.begin();
  for (const auto rows : result.rows) {
    parts.emplace_back(begin, begin + rows);
    begin += rows;
  }
  return parts;
}

// --- what a host is ---

/// Mb/s, as the system knows it; 0 if it does not.
int speed_of(const std::string& interface) {
  std::ifstream file(fmt::format("/sys/class/net/{}/speed", interface.substr(0, interface.find(':'))));
  int speed = 0;
  return file >> speed && speed > 0 ? speed : 0;
}

std::vector<ProbedAddress> probed_addresses(const std::string& network) {
  const auto all = interface_addresses();
  std::vector<ProbedAddress> probed;
  for (const auto& address : own_addresses(network)) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.address == address; });
    const std::string interface = found == all.end() ? "lo" : found->interface;
    probed.push_back({address, interface, speed_of(interface)});
  }
  return probed;
}

/// The first line that a command prints.
std::string first_line_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::string text;
  std::array<char, 512> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
  return text.substr(0, text.find('\n'));
}

/// Asks a job of this host's own, also where an allocation of Slurm's has other hosts. Its control
/// connections are of the loopback, whatever --network says.
std::string arena_of(int ranks) {
  if (ranks < 2) return "";
  const std::string program = shell_quoted(own_program());
  const std::string said = first_line_of(
      fmt::format("exec {} -H localhost:{} --no-prefix -x HORA_CPU_OPERATIONS=shm -x HORA_NETWORK= "
                  "{} {} 2>/dev/null </dev/null",
                  program, ranks, program, kArenaProbe));
  return said.empty() ? fmt::format("{} ranks cannot be started here", ranks) : said;
}

HostFacts own_facts(const HostSlots& host, const Config& config, const ProbeSocket& socket) {
  HostFacts facts;
  facts.name = host.host;
  facts.cores = std::min(count_cores(usable_cores()), core_quota());
  facts.memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                 static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  facts.version = version();
  facts.addresses = probed_addresses(config.network);
  facts.port = socket.port();
  facts.token = socket.token();
  facts.arena = arena_of(host.slots);
  return facts;
}

// --- what links are ---

/// From a host to one of a lower number, which waits for it.
LinkFacts measure(int from, int to, const HostFacts& other, int round) {
  LinkFacts link;
  link.from = from;
  link.to = to;
  std::vector<std::string> addresses;
  for (const auto& each : other.addresses) addresses.push_back(each.address);
  try {
    const Descriptor connection =
        reach_probe(addresses, other.port, other.token, round, Clock::now() + kReach);
    link.address_from = own_end(connection.fd());
    link.address_to = other_end(connection.fd());
    link.figures = ask_link(connection.fd(), kMeasure, Clock::now() + kPair);
  } catch (const Error& error) {
    link.trouble = error.what();
  }
  return link;
}

void be_measured(const ProbeSocket& socket, int round) {
  try {
    const Descriptor connection = socket.accept(round, Clock::now() + kWait);
    answer_link(connection.fd(), kMeasure, Clock::now() + kPair);
  } catch (const Error&) {
    return;  // the other side says what was wrong
  }
}

/// Those of this rank to ranks of lower numbers.
std::vector<LinkFacts> measure_links(Runtime& runtime, const std::vector<HostFacts>& hosts,
                                     const ProbeSocket& socket) {
  std::vector<LinkFacts> links;
  for (int round = 0; round < rounds_of(runtime.size()); ++round) {
    const auto partner = partner_in(round, runtime.rank(), runtime.size());
    if (partner && *partner < runtime.rank()) {
      links.push_back(measure(runtime.rank(), *partner, hosts[static_cast<std::size_t>(*partner)], round));
    } else if (partner) {
      be_measured(socket, round);
    }
    static_cast<void>(gather(runtime, Bytes(1)));  // so that pairs do not get into each other's way
  }
  return links;
}

int probe_hosts(const std::vector<HostSlots>& hosts) {
  const Config config = Config::from_environment();
  Runtime runtime(config);
  const ProbeSocket socket;
  if (static_cast<std::size_t>(runtime.size()) != hosts.size())
    throw Error(Code::invalid_argument, fmt::format("{} probes for {} hosts", runtime.size(), hosts.size()));
  std::vector<HostFacts> facts;
  const auto own = own_facts(hosts[static_cast<std::size_t>(runtime.rank())], config, socket);
  for (const auto& bytes : gather(runtime, encode(own))) facts.push_back(decode_host(bytes));
  const auto own_links = measure_links(runtime, facts, socket);
  std::vector<LinkFacts> links;
  for (const auto& bytes : gather(runtime, encode(own_links))) {
    for (auto& link : decode_links(bytes, runtime.size())) links.push_back(std::move(link));
  }
  std::sort(links.begin(), links.end(), [](const LinkFacts& a, const LinkFacts& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  if (runtime.rank() != 0) return 0;
  std::fputs(report(facts, links).c_str(), stdout);
  return all_reached(links) ? 0 : 1;
}

// --- shared memory ---

/// The least time of an allreduce of that many floats, seconds.
double time_allreduce(Runtime& runtime, std::size_t count, int times) {
  const auto memory = runtime.allocate(count * sizeof(float));
  double least = 1e9;
  for (int i = 0; i < times; ++i) {
    Entry entry;
    entry.name = "probe.arena";
    entry.shape = {static_cast<std::int64_t>(count)};
    entry.input = entry.output = memory.get();
    entry.op = ReduceOp::max;
    const TimePoint start = Clock::now();
    static_cast<void>(runtime.submit(std::move(entry)).wait());
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return least;
}

int probe_arena() {
  constexpr std::size_t kLarge = std::size_t{16} << 20;
  try {
    Runtime runtime = init();
    const double small = time_allreduce(runtime, 2, 200);
    const double large = time_allreduce(runtime, kLarge / sizeof(float), 10);
    if (runtime.rank() == 0) {
      fmt::print("{} ranks share memory: an allreduce of 8 bytes takes {:.0f} us, of 16 MiB {:.1f} ms\n",
                 runtime.size(), small * 1e6, large * 1e3);
    }
    return 0;
  } catch (const Error& error) {
    fmt::print("ranks cannot share memory, and use sockets: {}\n", error.what());
    return 1;
  }
}

}  // namespace

std::vector<std::string> probe_command(const std::vector<HostSlots>& hosts) {
  std::vector<std::string> names(hosts.size());
  std::transform(hosts.begin(), hosts.end(), names.begin(), to_text);
  return {"/proc/self/exe", kProbe, fmt::format("{}", fmt::join(names, ","))};
}

std::optional<int> run_probe(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && arguments.front() == kArenaProbe) return probe_arena();
  if (arguments.size() == 2 && arguments.front() == kProbe) return probe_hosts(parse_hosts(arguments.back()));
  return std::nullopt;
}

}  // namespace hora::hrun
