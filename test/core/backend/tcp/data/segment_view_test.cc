// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/segment_view.h"

#include <gtest/gtest.h>

namespace hora::tcp {
namespace {

TEST(SegmentView, FindsAnyRangeWhereverSegmentsEnd) {
  std::vector<int> input(10);
  std::vector<int> output(10);
  const std::array<Segment, 5> segments{Segment{}, Segment{&input[0], &output[0], 3}, Segment{},
                                        Segment{&input[5], &output[5], 4}, Segment{&input[9], &output[9], 1}};
  const SegmentView view(segments, sizeof(int));
  EXPECT_EQ(view.count(), 8u);
  EXPECT_EQ(view.bytes(), 32u);
  const std::array<int, 8> places{0, 1, 2, 5, 6, 7, 8, 9};
  for (std::size_t begin = 0; begin <= 8; ++begin) {
    for (std::size_t end = begin; end <= 8; ++end) {
      std::vector<const int*> inputs;
      std::vector<const int*> outputs;
      const auto list = [](const Pieces& pieces, std::vector<const int*>& elements) {
        for (const auto& piece : pieces) {
          for (std::size_t i = 0; i < piece.size(); i += sizeof(int))
            elements.push_back(reinterpret_cast<const int*>(piece.data() + i));
        }
      };
      list(view.inputs(begin, end), inputs);
      list(view.outputs(begin, end), outputs);
      ASSERT_EQ(inputs.size(), end - begin);
      ASSERT_EQ(outputs.size(), end - begin);
      for (std::size_t i = begin; i < end; ++i) {
        EXPECT_EQ(inputs[i - begin], &input[static_cast<std::size_t>(places[i])]);
        EXPECT_EQ(outputs[i - begin], &output[static_cast<std::size_t>(places[i])]);
      }
    }
  }
}

TEST(SegmentView, PacksNothingWhereThereIsNothingToPack) {
  class Never final : public Packing {
    void pack(std::size_t /*begin*/, std::size_t /*count*/) override { ADD_FAILURE(); }
    void unpack(std::size_t /*begin*/, std::size_t /*count*/) override { ADD_FAILURE(); }
  };
  std::vector<int> data(10);
  const Segment segment{data.data(), data.data(), data.size()};
  Never never;
  SegmentView({&segment, 1}, sizeof(int), &never).pack(3, 3);
  SegmentView({&segment, 1}, sizeof(int), &never).unpack(10, 10);
  SegmentView({&segment, 1}, sizeof(int)).pack(0, 10);
}

TEST(SegmentView, PartsCoverEverythingOnce) {
  for (const std::size_t count : {0, 1, 5, 16, 17, 1000}) {
    for (const std::size_t parts : {1, 2, 3, 7, 16}) {
      EXPECT_EQ(part_begin(count, 0, parts), 0u);
      EXPECT_EQ(part_begin(count, parts, parts), count);
      for (std::size_t part = 0; part < parts; ++part)
        EXPECT_LE(part_begin(count, part, parts), part_begin(count, part + 1, parts));
    }
  }
}

}  // namespace
}  // namespace hora::tcp
