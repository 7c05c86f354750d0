// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/peer_memory.h"

#include "core/base/descriptor.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hora::shm {
namespace {

using Copy = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

class ProcessMemory final : public PeerMemory {
 public:
  explicit ProcessMemory(std::vector<int> pids) : pids_(std::move(pids)) {}

  void read(int rank, void* to, std::uint64_t address, std::size_t bytes) override {
    move(::process_vm_readv, rank, to, address, bytes);
  }
  void write(int rank, std::uint64_t address, const void* from, std::size_t bytes) override {
    move(::process_vm_writev, rank, const_cast<void*>(from), address, bytes);
  }
  [[nodiscard]] bool has_ended(int rank) const noexcept override {
    const Descriptor process(
        static_cast<int>(::syscall(SYS_pidfd_open, pids_[static_cast<std::size_t>(rank)], 0)));
    if (!process) return errno == ESRCH;
    pollfd ended{process.fd(), POLLIN, 0};
    return ::poll(&ended, 1, 0) == 1;
  }

 private:
  void move(Copy call, int rank, void* local, std::uint64_t address, std::size_t bytes) {
    auto* next = static_cast<std::byte*>(local);
    while (bytes > 0) {
      const iovec here{next, bytes};
      const iovec there{reinterpret_cast<void*>(address), bytes};
      const auto moved = call(pids_[static_cast<std::size_t>(rank)], &here, 1, &there, 1, 0);
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) {
        throw Error(Code::aborted,
                    fmt::format("the memory of rank {} is out of reach: {}", rank, std::strerror(errno)));
      }
      next += moved;
      address += static_cast<std::uint64_t>(moved);
      bytes -= static_cast<std::size_t>(moved);
    }
  }

  std::vector<int> pids_;
};

class ThreadMemory final : public PeerMemory {
 public:
  void read(int /*rank*/, void* to, std::uint64_t address, std::size_t bytes) override {
    std::memcpy(to, reinterpret_cast<const void*>(address), bytes);
  }
  void write(int /*rank*/, std::uint64_t address, const void* from, std::size_t bytes) override {
    std::memcpy(reinterpret_cast<void*>(address), from, bytes);
  }
  [[nodiscard]] bool has_ended(int /*rank*/) const noexcept override { return false; }
};

}  // namespace

std::unique_ptr<PeerMemory> make_process_memory(const std::vector<int>& pids,
                                                const std::vector<std::uint64_t>& probes) {
  auto memory = std::make_unique<ProcessMemory>(pids);
  try {
    for (std::size_t rank = 0; rank < pids.size(); ++rank) {
      if (probes[rank] == 0) continue;
      std::uint64_t word = 0;
      memory->read(static_cast<int>(rank), &word, probes[rank], sizeof word);
      if (word != kProbe) return nullptr;  // the number means another process over there
      memory->write(static_cast<int>(rank), probes[rank], &word, sizeof word);
    }
  } catch (const Error&) {
    return nullptr;
  }
  return memory;
}

std::unique_ptr<PeerMemory> make_thread_memory() { return std::make_unique<ThreadMemory>(); }

}  // namespace hora::shm
