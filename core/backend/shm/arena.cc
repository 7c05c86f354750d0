// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hora::shm {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kGiveBack = 1024 * 1024;        // smaller free pieces keep their memory
constexpr std::size_t kBackAtOnce = 2 * 1024 * 1024;  // less than a millisecond
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14; older headers lack the name

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }
std::size_t head_bytes(int ranks) {
  return round_up(static_cast<std::size_t>(ranks) * sizeof(RankBlock), kPage);
}

[[noreturn]] void fail(const std::string& what) {
  const int error = errno;
  throw Error(Code::unavailable, fmt::format("{}: {}", what, std::strerror(error)));
}

}  // namespace

Mapping::Mapping(Descriptor file, std::size_t size) : file_(std::move(file)), size_(size), base_(nullptr) {
  struct stat found{};
  if (::fstat(file_.fd(), &found) != 0 || static_cast<std::size_t>(found.st_size) != size_) {
    throw Error(Code::unavailable,
                fmt::format("an arena of {} bytes was expected, not {}", size_, found.st_size));
  }
  void* mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.fd(), 0);
  if (mapped == MAP_FAILED) {
    fail(fmt::format("cannot map an arena of {} bytes of address space (HORA_ARENA_SIZE makes it smaller)",
                     size_));
  }
  base_ = static_cast<std::byte*>(mapped);
}

Mapping::~Mapping() { ::munmap(base_, size_); }

std::size_t Arena::file_bytes(int ranks, std::size_t region) {
  return head_bytes(ranks) + static_cast<std::size_t>(ranks) * region;
}

Descriptor Arena::create_file(int ranks, std::size_t region) {
  Descriptor file(::memfd_create("hora-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) fail("cannot make shared memory (memfd_create)");
  const std::size_t size = file_bytes(ranks, region);
  if (::ftruncate(file.fd(), static_cast<off_t>(size)) != 0)
    fail(fmt::format("cannot make an arena of {} bytes", size));
  ::fcntl(file.fd(), F_ADD_SEALS,
          F_SEAL_SHRINK | F_SEAL_GROW);  // nobody can cut memory off that another one uses
  return file;
}

std::shared_ptr<Arena> Arena::make(std::shared_ptr<const Mapping> mapping, int rank, int ranks,
                                   std::size_t region) {
  return std::shared_ptr<Arena>(new Arena(std::move(mapping), rank, ranks, region));
}

Arena::Arena(std::shared_ptr<const Mapping> mapping, int rank, int ranks, std::size_t region)
    : mapping_(std::move(mapping)),
      blocks_(reinterpret_cast<RankBlock*>(mapping_->base())),
      rank_(rank),
      ranks_(ranks),
      region_(region) {
  holes_.emplace(head_bytes(ranks) + static_cast<std::size_t>(rank) * region, region);
  back_with_memory(static_cast<std::size_t>(rank) * sizeof(RankBlock), sizeof(RankBlock));
}

void Arena::map_blocks(int ranks) const { map_now(0, head_bytes(ranks)); }

void Arena::clear(int rank) const {
  const auto number = static_cast<std::size_t>(rank);
  give_back(number * sizeof(RankBlock), sizeof(RankBlock));
  give_back(head_bytes(ranks_) + number * region_, region_);
}

void Arena::give_back(std::size_t begin, std::size_t bytes) const {
  const std::size_t first = round_up(begin, kPage);
  const std::size_t last = (begin + bytes) / kPage * kPage;
  ::fallocate(mapping_->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
              static_cast<off_t>(last - first));
}

bool Arena::contains(const void* data) const {
  const auto* byte = static_cast<const std::byte*>(data);
  return byte >= base() && byte < base() + size();
}

std::shared_ptr<std::byte> Arena::allocate(std::size_t bytes) {
  if (!owner_.is_this())
    throw Error(Code::unavailable, "a forked child cannot allocate in the arena of its parent");
  // A size that exceeds the whole arena is not rounded: it could become 0.
  const std::size_t rounded = bytes > size() ? bytes : round_up(std::max<std::size_t>(bytes, 1), kAlignment);
  const std::size_t begin = take(rounded);
  try {
    back_with_memory(begin, rounded);
  } catch (const Error&) {
    free(begin, rounded);
    throw;
  }
  std::memset(base() + begin, 0, rounded);
  return {base() + begin,
          [self = shared_from_this(), begin, rounded](std::byte*) { self->free(begin, rounded); }};
}

std::shared_ptr<RankBlock> Arena::take_block() {
  std::size_t offset = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!free_blocks_.empty()) {
      offset = free_blocks_.back();
      free_blocks_.pop_back();
    }
  }
  if (offset == 0) {
    offset = round_up(take(sizeof(RankBlock) + alignof(RankBlock)), alignof(RankBlock));
    back_with_memory(offset, sizeof(RankBlock));
  }
  std::memset(base() + offset, 0, sizeof(RankBlock));
  return {reinterpret_cast<RankBlock*>(base() + offset),
          [self = shared_from_this(), offset](RankBlock*) { self->give_back_block(offset); }};
}

std::string Arena::file_name() const {
  struct stat file{};
  if (::fstat(mapping_->fd(), &file) != 0) fail("cannot look at the arena's file");
  return fmt::format("{}:{}", file.st_dev, file.st_ino);
}

std::size_t Arena::offset_of(const RankBlock& block) const {
  return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&block) - base());
}

void Arena::give_back_block(std::size_t offset) {
  const std::lock_guard lock(mutex_);
  free_blocks_.push_back(offset);
}

std::size_t Arena::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (hole->second < bytes) continue;
    const auto [begin, length] = *hole;
    holes_.erase(hole);
    if (length > bytes) holes_.emplace(begin + bytes, length - bytes);
    return begin;
  }
  throw Error(Code::unavailable,
              fmt::format("no room for {} more bytes in this rank's part of the arena: HORA_ARENA_SIZE "
                          "sets how large it is",
                          bytes));
}

void Arena::back_with_memory(std::size_t begin, std::size_t bytes) const {
  const std::size_t first = begin / kPage * kPage;
  const std::size_t last = round_up(begin + bytes, kPage);
  // Taken from the system now, so that a lack of memory is an error here and not a signal when it is first
  // touched. A little at a time: a signal may interrupt the call, and then the kernel undoes all of it, so
  // that a large one would never end where signals come often, as a profiler's do.
  for (std::size_t next = first; next < last;) {
    const std::size_t step = std::min(kBackAtOnce, last - next);
    if (::fallocate(mapping_->fd(), 0, static_cast<off_t>(next), static_cast<off_t>(step)) == 0) {
      next += step;
    } else if (errno != EINTR) {
      fail(fmt::format("no memory for {} bytes in the arena; use less, or more ranks per host", bytes));
    }
  }
  map_now(begin, bytes);
}

void Arena::map_now(std::size_t begin, std::size_t bytes) const {
  const std::size_t first = begin / kPage * kPage;
  // Kernels before 5.14 do not know this, and take page faults one by one.
  ::madvise(base() + first, round_up(begin + bytes, kPage) - first, kPopulateWrite);
}

void Arena::free(std::size_t begin, std::size_t bytes) {
  if (!owner_.is_this()) return;
  if (bytes >= kGiveBack) {
    give_back(begin, bytes);
    block(rank_).given_back.fetch_add(1, std::memory_order_release);
  }
  const std::lock_guard lock(mutex_);
  auto next = holes_.upper_bound(begin);
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      holes_.erase(before);
    }
  }
  if (next != holes_.end() && begin + bytes == next->first) {
    bytes += next->second;
    holes_.erase(next);
  }
  holes_.emplace(begin, bytes);
}

}  // namespace hora::shm
