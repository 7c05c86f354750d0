// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_gpu/fake_rendezvous.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <ctime>
#include <stdexcept>

namespace hora {
namespace {

std::size_t squared(int ranks) { return static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks); }

}  // namespace

FakeRendezvous::FakeRendezvous(const std::string& name, int ranks)
    : name_(name), ranks_(ranks), size_(sizeof(Head) + squared(ranks) * sizeof(Channel)) {
  const int file = ::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(size_)) != 0)
    throw std::runtime_error("cannot make " + name);
  void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot map " + name);
  head_ = static_cast<Head*>(memory);  // zeros, which is what it begins with
}

FakeRendezvous::~FakeRendezvous() {
  ::munmap(head_, size_);
  ::shm_unlink(name_.c_str());
}

FakeRendezvous::Channel& FakeRendezvous::channel(int from, int to) const {
  auto* channels = reinterpret_cast<Channel*>(head_ + 1);
  return channels[from * ranks_ + to];
}

bool FakeRendezvous::arrive(int rank, int bus) {
  std::uint32_t none = 0;
  const auto ranks = static_cast<std::uint32_t>(ranks_);
  if (!head_->ranks.compare_exchange_strong(none, ranks) && none != ranks) return false;
  none = 0;
  if (!head_->buses[rank].compare_exchange_strong(none, static_cast<std::uint32_t>(bus) + 1)) return false;
  if (head_->arrived.fetch_add(1) + 1 == ranks) ::shm_unlink(name_.c_str());
  notify();
  return true;
}

bool FakeRendezvous::complete() const { return head_->arrived.load() == static_cast<std::uint32_t>(ranks_); }

std::array<int, 2> FakeRendezvous::sharers() const {
  for (int one = 0; one < ranks_; ++one) {
    for (int other = one + 1; other < ranks_; ++other) {
      if (head_->buses[one].load() == head_->buses[other].load()) return {one, other};
    }
  }
  return {-1, -1};
}

void FakeRendezvous::ask_to_split(std::uint32_t number, int rank, int color, int key) {
  Request& request = head_->requests[number % kSplits][rank];
  request.color = color;
  request.key = key;
  request.number.store(number + 1, std::memory_order_release);
  notify();
}

bool FakeRendezvous::all_asked(std::uint32_t number) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (head_->requests[number % kSplits][rank].number.load(std::memory_order_acquire) != number + 1)
      return false;
  }
  return true;
}

int FakeRendezvous::color(std::uint32_t number, int rank) const {
  return head_->requests[number % kSplits][rank].color;
}
int FakeRendezvous::key(std::uint32_t number, int rank) const {
  return head_->requests[number % kSplits][rank].key;
}

bool FakeRendezvous::try_send(int from, int to, const FakeTag& tag, const void* data, std::size_t bytes) {
  Channel& channel = this->channel(from, to);
  const std::uint32_t written = channel.written.load(std::memory_order_relaxed);
  if (written != channel.read.load(std::memory_order_acquire)) return false;
  channel.tag = tag;
  channel.bytes = bytes;
  if (bytes > 0) std::memcpy(channel.data, data, bytes);
  channel.written.store(written + 1, std::memory_order_release);
  notify();
  return true;
}

bool FakeRendezvous::try_receive(int from, int to, FakeTag& tag, void* data, std::size_t most,
                                 std::size_t& bytes) {
  Channel& channel = this->channel(from, to);
  const std::uint32_t read = channel.read.load(std::memory_order_relaxed);
  if (read == channel.written.load(std::memory_order_acquire)) return false;
  tag = channel.tag;
  bytes = channel.bytes;
  if (bytes > 0 && bytes <= most) std::memcpy(data, channel.data, bytes);
  channel.read.store(read + 1, std::memory_order_release);
  notify();
  return true;
}

void FakeRendezvous::spoil() {
  head_->spoilt.store(1);
  notify();
}

bool FakeRendezvous::spoilt() const { return head_->spoilt.load() != 0; }

std::uint32_t FakeRendezvous::version() const { return head_->version.load(std::memory_order_acquire); }

void FakeRendezvous::notify() {
  head_->version.fetch_add(1, std::memory_order_acq_rel);
  ::syscall(SYS_futex, &head_->version, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void FakeRendezvous::await_change(std::uint32_t known, std::chrono::milliseconds most) {
  timespec time{0, static_cast<long>(most.count()) * 1'000'000};
  ::syscall(SYS_futex, &head_->version, FUTEX_WAIT, known, &time, nullptr, 0);
}

}  // namespace hora
