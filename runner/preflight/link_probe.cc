// SPDX-License-Identifier: Apache-2.0
#include "runner/preflight/link_probe.h"

#include "core/base/socket_io.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

namespace hora::hrun {
namespace {

constexpr std::size_t kPing = 64;
constexpr std::size_t kMostTrips = 1000;
constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::byte kMore{1};  // the first byte of whatever is followed by more of its kind
constexpr std::byte kLast{0};

double seconds_since(TimePoint start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median_trip(int fd, std::chrono::milliseconds time, TimePoint deadline) {
  std::array<std::byte, kPing> ping{};
  std::vector<double> trips;
  const TimePoint start = Clock::now();
  do {
    const bool more = trips.size() + 1 < kMostTrips && Clock::now() - start < time;
    ping[0] = more ? kMore : kLast;
    const TimePoint sent = Clock::now();
    write_all(fd, ping, deadline);
    read_exactly(fd, ping, deadline);
    trips.push_back(seconds_since(sent));
  } while (ping[0] == kMore);
  const auto middle = trips.begin() + static_cast<std::ptrdiff_t>(trips.size() / 2);
  std::nth_element(trips.begin(), middle, trips.end());
  return *middle;
}

void echo(int fd, TimePoint deadline) {
  std::array<std::byte, kPing> ping{};
  do {
    read_exactly(fd, ping, deadline);
    write_all(fd, ping, deadline);
  } while (ping[0] == kMore);
}

/// Sends blocks, and waits until the other side has them all. MB/s.
double send_blocks(int fd, std::chrono::milliseconds time, TimePoint deadline) {
  std::vector<std::byte> block(kBlock);
  std::size_t bytes = 0;
  const TimePoint start = Clock::now();
  do {
    block[0] = Clock::now() - start < time ? kMore : kLast;
    write_all(fd, block, deadline);
    bytes += kBlock;
  } while (block[0] == kMore);
  std::array<std::byte, 1> heard{};
  read_exactly(fd, heard, deadline);
  return static_cast<double>(bytes) / 1e6 / seconds_since(start);
}

void receive_blocks(int fd, TimePoint deadline) {
  std::vector<std::byte> block(kBlock);
  do {
    read_exactly(fd, block, deadline);
  } while (block[0] == kMore);
  write_all(fd, std::array{kLast}, deadline);
}

}  // namespace

LinkFigures ask_link(int fd, std::chrono::milliseconds time, TimePoint deadline) {
  LinkFigures figures;
  figures.latency = median_trip(fd, time, deadline) / 2 * 1e6;
  figures.there = send_blocks(fd, time, deadline);
  receive_blocks(fd, deadline);
  std::array<std::byte, sizeof(double)> back{};
  read_exactly(fd, back, deadline);
  std::memcpy(&figures.back, back.data(), sizeof(double));
  return figures;
}

void answer_link(int fd, std::chrono::milliseconds time, TimePoint deadline) {
  echo(fd, deadline);
  receive_blocks(fd, deadline);
  const double back = send_blocks(fd, time, deadline);
  write_all(fd, std::as_bytes(std::span(&back, 1)), deadline);
}

}  // namespace hora::hrun
