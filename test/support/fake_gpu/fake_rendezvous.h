// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace hora {

/// The operation that a rank is about to do, which all ranks have to agree on. A value.
struct FakeTag {
  std::uint32_t kind = 0;
  std::uint32_t type = 0;
  std::uint32_t op = 0;
  std::int32_t root = 0;
  std::uint64_t count = 0;
  std::uint64_t input = 0;  ///< plus one: how far in memory that is registered; 0: in other memory
  std::uint64_t output = 0;

  bool operator==(const FakeTag&) const = default;
};

/// The rendezvous of the ranks of a communicator, which are threads or processes: shared memory that is named
/// after the communicator's id. It has a list of who is there, and a channel from each rank to each other, of
/// one piece of a message.
///
/// A piece is written by its sender while `written` equals `read`, and read by its receiver while `written`
/// is one more; each adds to its own counter (release) after that, and looks at the other's (acquire). A rank
/// that changes anything adds one to `version`, a futex. A rank that waits reads the version before it looks,
/// so that no change is missed.
class FakeRendezvous {
 public:
  static constexpr int kMostRanks = 16;
  static constexpr std::size_t kPieceBytes = 32 * 1024;

  /// Any rank may come first.
  FakeRendezvous(const std::string& name, int ranks);
  ~FakeRendezvous();
  FakeRendezvous(const FakeRendezvous&) = delete;
  FakeRendezvous& operator=(const FakeRendezvous&) = delete;

  /// False: the ranks do not agree about how many they are, or another one has this number.
  bool arrive(int rank, int bus);
  [[nodiscard]] bool complete() const;
  /// Two ranks whose GPUs are at one place of the bus; -1: there are none.
  [[nodiscard]] std::array<int, 2> sharers() const;

  /// Tells all what this rank wants of a split, and looks whether all have. A window takes the same way: its
  /// color is the number of windows that there are, and its key the bytes.
  void ask_to_split(std::uint32_t number, int rank, int color, int key);
  [[nodiscard]] bool all_asked(std::uint32_t number) const;
  [[nodiscard]] int color(std::uint32_t number, int rank) const;
  [[nodiscard]] int key(std::uint32_t number, int rank) const;

  /// False: the channel is full.
  bool try_send(int from, int to, const FakeTag& tag, const void* data, std::size_t bytes);
  /// False: there is nothing. `tag` is what its sender said; `bytes` is how many there are, which is not more
  /// than `most` if the tags agree.
  bool try_receive(int from, int to, FakeTag& tag, void* data, std::size_t most, std::size_t& bytes);

  /// Some rank has found that the ranks do not agree.
  void spoil();
  [[nodiscard]] bool spoilt() const;

  [[nodiscard]] std::uint32_t version() const;
  void notify();
  /// Until the version is another one than `known`, or some time has passed.
  void await_change(std::uint32_t known, std::chrono::milliseconds most);

 private:
  struct Channel {
    std::atomic<std::uint32_t> written;
    std::atomic<std::uint32_t> read;
    FakeTag tag;
    std::uint64_t bytes;
    std::byte data[kPieceBytes];
  };
  static constexpr std::uint32_t kSplits = 8;  // a rank is at most one further than the others
  struct Request {
    std::atomic<std::uint32_t> number;  ///< plus one
    std::int32_t color;
    std::int32_t key;
  };
  struct Head {
    std::atomic<std::uint32_t> version;
    std::atomic<std::uint32_t> ranks;
    std::atomic<std::uint32_t> arrived;
    std::atomic<std::uint32_t> spoilt;
    std::atomic<std::uint32_t> buses[kMostRanks];  ///< plus one
    Request requests[kSplits][kMostRanks];
  };

  [[nodiscard]] Channel& channel(int from, int to) const;

  std::string name_;
  int ranks_;
  std::size_t size_;
  Head* head_ = nullptr;
};

}  // namespace hora
