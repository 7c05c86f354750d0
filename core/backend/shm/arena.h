// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/rank_block.h"
#include "core/base/owner_process.h"
#include "core/base/socket_io.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace hora::shm {

/// Bytes of a page of memory; regions are whole ones.
inline constexpr std::size_t kPage = 4096;

/// The arena's file, mapped into this process. Given back with the last owner.
class Mapping {
 public:
  /// Throws Error(unavailable) if the file has not this size or there is no room for it.
  Mapping(Descriptor file, std::size_t size);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] int fd() const { return file_.fd(); }
  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  Descriptor file_;
  std::size_t size_;
  std::byte* base_;
};

/// Memory that all ranks of a host map: a rank block for each rank, then a large region for each rank, from
/// which it lends tensors. One anonymous file (memfd): no name anywhere, gone with the last process that maps
/// it, not limited by the size of /dev/shm. The regions are address space; memory is taken when a rank
/// allocates, and given back when it frees.
///
/// Each rank maps the file where it likes, so ranks tell each other offsets. A holder of memory from
/// `allocate` holds the mapping. A forked child may read and write the memory that the parent had, but
/// allocates and frees nothing. Thread-safe.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  /// A new file for up to `ranks` ranks with `region` bytes of address space each. Throws Error(unavailable).
  [[nodiscard]] static Descriptor create_file(int ranks, std::size_t region);
  /// The size of that file.
  [[nodiscard]] static std::size_t file_bytes(int ranks, std::size_t region);
  /// The arena as the given rank has it. Ranks that are threads may share a mapping.
  [[nodiscard]] static std::shared_ptr<Arena> make(std::shared_ptr<const Mapping> mapping, int rank,
                                                   int ranks, std::size_t region);
  ~Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] RankBlock& block(int rank) const { return blocks_[rank]; }
  /// Takes all page faults of the rank blocks of the first ranks at once.
  void map_blocks(int ranks) const;
  [[nodiscard]] std::byte* base() const { return mapping_->base(); }
  [[nodiscard]] std::size_t size() const { return mapping_->size(); }
  /// Whether the byte lies in the mapping.
  [[nodiscard]] bool contains(const void* data) const;

  /// Takes all page faults of this range, which lies in memory that is allocated, at once.
  void map_now(std::size_t begin, std::size_t bytes) const;

  /// A rank block, all zeros, for a communicator other than that of all ranks. Its last owner gives it back,
  /// and may only do so when no rank looks at it any more. Throws Error(unavailable) as `allocate` does.
  [[nodiscard]] std::shared_ptr<RankBlock> take_block();
  /// Where such a block is, as the others may be told.
  [[nodiscard]] std::size_t offset_of(const RankBlock& block) const;

  /// The name of its file, the same on all ranks, and of no other arena of this host while it is mapped.
  [[nodiscard]] std::string file_name() const;
  /// The file, for another process to map.
  [[nodiscard]] int file() const { return mapping_->fd(); }
  /// The rank that this one is in the arena.
  [[nodiscard]] int rank() const { return rank_; }
  /// How many ranks can be in the arena, and the bytes of the region of each.
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] std::size_t region() const { return region_; }
  /// Gives back all memory of a rank whose process has ended. All of it is zeros then, for a new process.
  void clear(int rank) const;

  /// Zeroed, populated memory of this rank's region, aligned to 64 bytes. Throws Error(unavailable) that says
  /// how much was asked for and what to do.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

 private:
  Arena(std::shared_ptr<const Mapping> mapping, int rank, int ranks, std::size_t region);
  void give_back_block(std::size_t offset);
  std::size_t take(std::size_t bytes);
  void back_with_memory(std::size_t begin, std::size_t bytes) const;
  void give_back(std::size_t begin, std::size_t bytes) const;
  void free(std::size_t begin, std::size_t bytes);

  std::shared_ptr<const Mapping> mapping_;
  RankBlock* blocks_;
  int rank_;
  int ranks_;
  std::size_t region_;
  OwnerProcess owner_;  // the process that may allocate and free

  std::mutex mutex_;
  std::vector<std::size_t> free_blocks_;      // offsets
  std::map<std::size_t, std::size_t> holes_;  // free pieces of the own region: begin -> bytes, never adjacent
};

}  // namespace hora::shm
