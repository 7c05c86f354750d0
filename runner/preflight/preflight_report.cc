// SPDX-License-Identifier: Apache-2.0
#include "runner/preflight/preflight_report.h"

#include "core/base/bytes.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora::hrun {
namespace {

constexpr std::size_t kLongestText = 4096;
constexpr std::uint64_t kMostNumber = std::uint64_t{1} << 30;
constexpr double kEnough = 0.5;  // of what a link is said to carry

void write(Writer& out, const LinkFacts& link) {
  out.u64(static_cast<std::uint64_t>(link.from)).u64(static_cast<std::uint64_t>(link.to));
  out.string(link.trouble).string(link.address_from).string(link.address_to);
  out.f64(link.figures.latency).f64(link.figures.there).f64(link.figures.back);
}

LinkFacts read_link(Reader& in, int hosts) {
  LinkFacts link;
  link.from = static_cast<int>(in.below(static_cast<std::uint64_t>(hosts), "a host"));
  link.to = static_cast<int>(in.below(static_cast<std::uint64_t>(hosts), "a host"));
  link.trouble = in.string(kLongestText);
  link.address_from = in.string(kLongestText);
  link.address_to = in.string(kLongestText);
  link.figures.latency = in.f64();
  link.figures.there = in.f64();
  link.figures.back = in.f64();
  return link;
}

/// "10 Gb/s"
std::string speed_text(int speed) {
  return speed % 1000 == 0 ? fmt::format("{} Gb/s", speed / 1000) : fmt::format("{} Mb/s", speed);
}

std::string words_for(const ProbedAddress& address) {
  return fmt::format("{} ({}{})", address.address, address.interface,
                     address.speed > 0 ? ", " + speed_text(address.speed) : "");
}

ProbedAddress find(const HostFacts& host, const std::string& address) {
  const auto found = std::find_if(host.addresses.begin(), host.addresses.end(),
                                  [&](const ProbedAddress& each) { return each.address == address; });
  return found != host.addresses.end() ? *found : ProbedAddress{address, "?", 0};
}

std::string host_text(const HostFacts& host) {
  constexpr double kGibibyte = 1024.0 * 1024 * 1024;
  std::string text = fmt::format("  {}: {} {}, {:.1f} GiB, Hora {}\n", host.name, host.cores,
                                 host.cores == 1 ? "core" : "cores",
                                 static_cast<double>(host.memory) / kGibibyte, host.version);
  for (const auto& address : host.addresses) text += fmt::format("    {}\n", words_for(address));
  if (!host.arena.empty()) text += fmt::format("    {}\n", host.arena);
  return text;
}

/// Warnings of figures that are lower than they should be, a line each.
std::string warnings(const std::vector<HostFacts>& hosts, const LinkFacts& link, const ProbedAddress& from,
                     const ProbedAddress& to) {
  int speed = std::max(from.speed, to.speed);  // of the slower end, as far as both are known
  if (from.speed > 0 && to.speed > 0) speed = std::min(from.speed, to.speed);
  if (speed <= 0) return "";
  std::string text;
  const auto check = [&](int sender, int receiver, double rate) {
    const double part = rate * 8 / speed;
    if (part >= kEnough) return;
    text += fmt::format("    warning: {:.0f} MB/s from {} to {} are {:.0f} % of the link's {}\n", rate,
                        hosts.at(static_cast<std::size_t>(sender)).name,
                        hosts.at(static_cast<std::size_t>(receiver)).name, part * 100, speed_text(speed));
  };
  check(link.from, link.to, link.figures.there);
  check(link.to, link.from, link.figures.back);
  return text;
}

std::string link_text(const std::vector<HostFacts>& hosts, const LinkFacts& link) {
  const HostFacts& one = hosts.at(static_cast<std::size_t>(link.from));
  const HostFacts& other = hosts.at(static_cast<std::size_t>(link.to));
  if (!link.trouble.empty())
    return fmt::format("  {} cannot reach {}: {}\n", one.name, other.name, link.trouble);
  const ProbedAddress from = find(one, link.address_from);
  const ProbedAddress to = find(other, link.address_to);
  return fmt::format("  {} - {}: {:.0f} us, {:.0f} MB/s there, {:.0f} MB/s back; {} - {}\n", one.name,
                     other.name, link.figures.latency, link.figures.there, link.figures.back, words_for(from),
                     words_for(to)) +
         warnings(hosts, link, from, to);
}

}  // namespace

Bytes encode(const HostFacts& facts) {
  Writer out;
  out.string(facts.name).u64(static_cast<std::uint64_t>(facts.cores)).u64(facts.memory).string(facts.version);
  out.string(facts.arena).u64(facts.addresses.size());
  for (const auto& each : facts.addresses)
    out.string(each.address).string(each.interface).u64(static_cast<std::uint64_t>(each.speed));
  out.u64(static_cast<std::uint64_t>(facts.port)).string(facts.token);
  return out.take();
}

HostFacts decode_host(std::span<const std::byte> bytes) {
  Reader in(bytes);
  HostFacts facts;
  facts.name = in.string(kLongestText);
  facts.cores = static_cast<int>(in.below(kMostNumber, "cores"));
  facts.memory = in.u64();
  facts.version = in.string(kLongestText);
  facts.arena = in.string(kLongestText);
  for (auto left = in.count(3, "addresses"); left > 0; --left) {
    ProbedAddress address;
    address.address = in.string(kLongestText);
    address.interface = in.string(kLongestText);
    address.speed = static_cast<int>(in.below(kMostNumber, "a speed"));
    facts.addresses.push_back(std::move(address));
  }
  facts.port = static_cast<int>(in.below(1 << 16, "a port"));
  facts.token = in.string(kLongestText);
  in.finish();
  return facts;
}

Bytes encode(std::span<const LinkFacts> links) {
  Writer out;
  out.u64(links.size());
  for (const auto& link : links) write(out, link);
  return out.take();
}

std::vector<LinkFacts> decode_links(std::span<const std::byte> bytes, int hosts) {
  Reader in(bytes);
  std::vector<LinkFacts> links;
  for (auto left = in.count(5, "links"); left > 0; --left) links.push_back(read_link(in, hosts));
  in.finish();
  return links;
}

std::string report(const std::vector<HostFacts>& hosts, const std::vector<LinkFacts>& links) {
  std::string text = "hosts\n";
  for (const auto& host : hosts) text += host_text(host);
  if (links.empty()) return text;
  text += "links\n";
  for (const auto& link : links) text += link_text(hosts, link);
  const auto lost =
      std::count_if(links.begin(), links.end(), [](const LinkFacts& link) { return !link.trouble.empty(); });
  text += lost == 0 ? "every host reaches every other\n"
                    : fmt::format("{} of {} pairs of hosts do not reach each other\n", lost, links.size());
  return text;
}

bool all_reached(const std::vector<LinkFacts>& links) {
  return std::all_of(links.begin(), links.end(), [](const LinkFacts& link) { return link.trouble.empty(); });
}

}  // namespace hora::hrun
