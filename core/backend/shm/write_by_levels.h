// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/remote_access.h"
#include "core/backend/shm/rounds.h"
#include "core/backend/shm/sums.h"
#include "core/compose/pieces.h"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace hora::shm {

/// One rank's part of an allreduce in which as little as can be travels between ranks that are far from each
/// other: a group's partial sum goes out of it once, and the result comes in once, however many they are
/// (`WriteAll` would bring every input to another rank, and every output to each).
///
/// A piece of all buffers at a time. Up: at each level every member of a group has a share of the piece, and
/// puts together what the parts of the group have made of it on the level below, which lies in the stage of
/// that member of a part whose share it was; at level 1, the ranks' inputs. At the last level it writes the
/// result into one output of each part: that of the member whose share it was. Down: who has got the result
/// of its share of a level writes it to one member of each part again, and at level 1 to all others. Between
/// two steps all wait for all (`Rounds::phase`), except after the last one down: the next piece is another
/// range of the buffers, and another step up.
///
/// Two levels take two phases for each piece, where WriteAll takes one for all of them. Between
/// `Rounds::meet` and a phase. If a rank has left it does nothing, and the call must fail after its last
/// phase (`throw_if_left`). *Engine only.*
class WriteByLevels {
 public:
  WriteByLevels(Communicator communicator, Rounds& rounds, RemoteAccess& access);

  /// All buffers lie in the arena; mailboxes say where. `levels`: at least two; the dtype is one that
  /// `Stepwise` suits.
  void run(const Levels& levels, std::span<const Segment> segments, const Reduction& reduction);

 private:
  /// Elements of the piece at hand.
  struct Range {
    std::size_t begin = 0;
    std::size_t count = 0;
  };
  struct Piece {
    const Levels& levels;
    std::span<const Segment> segments;
    Range whole;              // of all segments
    std::size_t each = 0;     // bytes of an element
    std::size_t partial = 0;  // between the steps
  };

  void go_up(const Piece& piece, std::size_t level, Stepwise& steps);
  void sum_inputs(const Piece& piece, const Range& share, Stepwise& steps);
  void finish(const Piece& piece, const Range& range, Stepwise& steps);
  void go_down(const Piece& piece, std::size_t level);
  void hand_out(const Piece& piece, std::size_t level, const Range& range);

  [[nodiscard]] static std::size_t piece_elements(const Levels& levels, std::size_t each,
                                                  std::size_t partial);
  [[nodiscard]] static Range share(const Piece& piece, const Levels::Group& group, std::size_t index);
  [[nodiscard]] static std::size_t holder(const Piece& piece, const Levels::Group& group, std::size_t at);
  [[nodiscard]] Range own_share(const Piece& piece, const Levels::Group& group) const;
  [[nodiscard]] std::byte* partial_of(const Piece& piece, std::size_t level, const Levels::Group& group,
                                      std::size_t at) const;
  void for_each_part_of(const Piece& piece, std::size_t level, const Range& range,
                        const std::function<void(const Range&)>& visit) const;
  void for_each_segment_of(const Piece& piece, const Range& range,
                           const std::function<void(const SegmentRange&)>& visit) const;

  Communicator communicator_;
  Rounds& rounds_;
  RemoteAccess& access_;
  std::vector<const void*> from_;  // of the step at hand
  std::vector<void*> to_;
};

}  // namespace hora::shm
