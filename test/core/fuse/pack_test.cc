// SPDX-License-Identifier: Apache-2.0
#include "core/fuse/pack.h"

#include "core/base/memory.h"
#include "core/device/host_stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace hora {
namespace {

/// A collective of one rank that wants small strays packed, and notes what it was given.
class Witness final : public Collective {
 public:
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    sizes.push_back(bytes);
    memory_ = allocate_zeroed(bytes);
    bytes_ = bytes;
    return memory_;
  }
  [[nodiscard]] std::size_t pack_below() const override { return 64; }
  [[nodiscard]] std::size_t best_round() const override { return round; }
  [[nodiscard]] bool owns(const void* data) const override {
    const auto* byte = static_cast<const std::byte*>(data);
    return byte >= memory_.get() && byte < memory_.get() + bytes_;
  }
  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    calls.emplace_back(segments.begin(), segments.end());
    for (const auto& segment : segments) {
      kernels::reduce({&segment.input, 1}, {&segment.output, 1}, segment.count, reduction);
    }
  }
  void allreduce_packed(const Segment& segment, const Reduction& reduction, Packing& packing) override {
    for (std::size_t begin = 0; begin < segment.count; begin += part) {
      const std::size_t count = std::min(part, segment.count - begin);
      packing.pack(begin, count);
      auto* const at = static_cast<std::byte*>(segment.output) + begin * size_of(reduction.dtype);
      const Segment piece{at, at, count};
      allreduce({&piece, 1}, reduction);
      packing.unpack(begin, count);
    }
  }
  void broadcast(void* /*data*/, std::size_t /*bytes*/, int /*root*/) override {}
  void allgather(const void* /*input*/, void* /*output*/, std::span<const std::size_t> /*bytes*/) override {}
  void alltoall(const void* /*input*/, void* /*output*/, std::span<const std::size_t> /*bytes*/) override {}
  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    kernels::reduce({&input, 1}, {&output, 1}, counts.front(), reduction);
  }
  std::unique_ptr<Collective> split(std::span<const int> /*members*/) override { return nullptr; }
  void barrier() override {}
  void abort(const Status& /*why*/) noexcept override {}

  std::vector<std::vector<Segment>> calls;
  std::vector<std::size_t> sizes;  // of the memory that was taken
  std::size_t round = std::numeric_limits<std::size_t>::max();
  std::size_t part = std::numeric_limits<std::size_t>::max();  // elements that are packed at a time

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_ = 0;
};

class PackerTest : public testing::Test {
 protected:
  PackerTest() {
    auto witness = std::make_unique<Witness>();
    witness_ = witness.get();
    lane_ = {make_host_stream(), std::move(witness)};
  }
  Lane lane_;
  Witness* witness_;
};

/// A piece that is reduced in place at a cache line of symmetric memory.
Segment in_symmetric_memory(std::vector<float>& memory, std::size_t line, std::size_t count, bool padded) {
  float* at = memory.data() + 16 * line;
  return {at, at, count, 64 * (line + 1), padded};
}

TEST_F(PackerTest, PacksSmallStraysAndLeavesLargeOnesWhereTheyLie) {
  std::vector<float> small{1, 2};
  std::vector<float> result(2);
  std::vector<float> large(100, 3);
  Packer packer(lane_, 1000);
  const std::vector<Segment> pieces{{small.data(), result.data(), 2}, {large.data(), large.data(), 100}};
  packer.allreduce(pieces, DType::float32, {DType::float32, ReduceOp::sum, 2.0, 1.0, 1});
  EXPECT_EQ(result, (std::vector<float>{2, 4}));
  EXPECT_EQ(large, std::vector<float>(100, 6));
  ASSERT_EQ(witness_->calls.size(), 1u);
  EXPECT_TRUE(witness_->owns(witness_->calls[0][0].input));
  EXPECT_EQ(witness_->calls[0][1].input, large.data());
}

TEST_F(PackerTest, CutsCompressedTensorsByCountsAlone) {
  std::vector<float> a(70, 1.5F);
  std::vector<float> b(200, 2.5F);
  Packer packer(lane_, 200);  // bytes: four lines of 32 elements a round
  const std::vector<Segment> pieces{{a.data(), a.data(), 70}, {b.data(), b.data(), 200}};
  packer.allreduce(pieces, DType::float32, {DType::float16, ReduceOp::sum, 1.0, 1.0, 1});
  EXPECT_EQ(a, std::vector<float>(70, 1.5F));
  EXPECT_EQ(b, std::vector<float>(200, 2.5F));
  ASSERT_EQ(witness_->calls.size(), 3u);
  EXPECT_EQ(witness_->calls[0][0].count, 128u) << "70, which take 96, and the first 32 of b";
  EXPECT_EQ(witness_->calls[2][0].count, 64u) << "the last 40 of b";
}

TEST_F(PackerTest, CutsCompressedTensorsIntoRoundsThatSuitThePlane) {
  witness_->round = 128;  // bytes: 64 elements
  std::vector<float> data(200, 1.5F);
  Packer packer(lane_, 1000);
  const std::vector<Segment> pieces{{data.data(), data.data(), 200}};
  packer.allreduce(pieces, DType::float32, {DType::float16, ReduceOp::sum, 2.0, 1.0, 1});
  EXPECT_EQ(data, std::vector<float>(200, 3.0F));
  ASSERT_EQ(witness_->calls.size(), 4u);
  EXPECT_EQ(witness_->calls[0][0].count, 64u);
}

TEST_F(PackerTest, PacksAnyPartOfItsPieces) {
  std::vector<float> a(70, 1.5F);
  std::vector<float> b{2.5F};
  std::vector<float> c(33, 3.5F);
  const std::vector<Segment> pieces{
      {a.data(), a.data(), 70}, {b.data(), b.data(), 1}, {c.data(), c.data(), 33}};
  for (const std::size_t part : {1, 5, 32, 95, 96, 1000}) {
    witness_->part = part;
    Packer packer(lane_, 1000);
    packer.note_spans(true);
    packer.allreduce(pieces, DType::float32, {DType::float16, ReduceOp::sum, 2.0, 1.0, 1});
    packer.allreduce(pieces, DType::float32, {DType::float16, ReduceOp::sum, 0.5, 1.0, 1});
    EXPECT_EQ(a, std::vector<float>(70, 1.5F)) << part;
    EXPECT_EQ(b, std::vector<float>(1, 2.5F)) << part;
    EXPECT_EQ(c, std::vector<float>(33, 3.5F)) << part;
    EXPECT_EQ(packer.spans().size(), part == 1000 ? 3u : 1u) << "stages, unless they alternate";
  }
}

TEST_F(PackerTest, MultipliesWhilePackingWhereThatIsFree) {
  lane_.fuses = true;
  std::vector<float> small{1, 2};
  std::vector<float> large(100, 3);
  Packer packer(lane_, 1000);
  const std::vector<Segment> pieces{{small.data(), small.data(), 2}, {large.data(), large.data(), 100}};
  packer.allreduce(pieces, DType::float32, {DType::float32, ReduceOp::sum, 2.0, 1.0, 4});
  EXPECT_EQ(small, (std::vector<float>{0.5, 1}));
  EXPECT_EQ(large, std::vector<float>(100, 1.5));
  EXPECT_EQ(witness_->calls.size(), 2u) << "what is packed needs no factor then, what is not does";
  packer.allreduce(pieces, DType::float32, {DType::float16, ReduceOp::sum, 1.0, 1.0, 2});
  EXPECT_EQ(small, (std::vector<float>{0.25, 0.5}));
}

TEST_F(PackerTest, SendsNeighboursInSymmetricMemoryAsOneWhereItFuses) {
  lane_.fuses = true;
  std::vector<float> memory(64, 3);
  Packer packer(lane_, 1000);
  const auto piece = [&](std::size_t line, std::size_t count) {
    return in_symmetric_memory(memory, line, count, true);
  };
  const std::vector<Segment> pieces{piece(3, 2), piece(1, 16), piece(0, 5)};  // whatever order they come in
  packer.allreduce(pieces, DType::float32, {DType::float32, ReduceOp::sum, 2.0, 1.0, 1});
  ASSERT_EQ(witness_->calls.size(), 1u);
  ASSERT_EQ(witness_->calls[0].size(), 2u) << "line 2 is nobody's";
  EXPECT_EQ(witness_->calls[0][0].count, 32u);
  EXPECT_EQ(witness_->calls[0][1].count, 2u);
  EXPECT_EQ(memory[0], 6);
  EXPECT_EQ(memory[16 + 15], 6);
  EXPECT_EQ(memory[32], 3);
  EXPECT_EQ(memory[48 + 1], 6);
}

TEST_F(PackerTest, LeavesAloneWhatLiesBetweenPiecesUnlessItIsPadding) {
  lane_.fuses = true;
  std::vector<float> memory(64, 3);
  Packer packer(lane_, 1000);
  const auto piece = [&](std::size_t line, std::size_t count) {
    return in_symmetric_memory(memory, line, count, false);
  };
  const std::vector<Segment> pieces{piece(0, 16), piece(1, 15), piece(2, 16)};
  packer.allreduce(pieces, DType::float32, {DType::float32, ReduceOp::sum, 2.0, 1.0, 1});
  ASSERT_EQ(witness_->calls[0].size(), 2u);
  EXPECT_EQ(witness_->calls[0][0].count, 31u) << "nothing lies between these two";
  EXPECT_EQ(memory[30], 6);
  EXPECT_EQ(memory[31], 3) << "another row of the user's tensor";
  EXPECT_EQ(memory[32], 6);
}

TEST_F(PackerTest, FlagsOutputsThatAreNotFinite) {
  const auto flag = lane_.stream->make_flag();
  std::vector<float> small{1, 70000};
  std::vector<float> large(100, 3);
  Packer packer(lane_, 1000);
  const std::vector<Segment> pieces{{small.data(), small.data(), 2}, {large.data(), large.data(), 100}};
  packer.allreduce(pieces, DType::float32, {DType::float32, ReduceOp::sum, 1.0, 1.0, 1}, flag.get());
  EXPECT_EQ(*flag, 0u);
  packer.allreduce(pieces, DType::float32, {DType::float16, ReduceOp::sum, 1.0, 1.0, 1}, flag.get());
  EXPECT_EQ(*flag, 1u) << "70000 is too large for float16";
}

TEST_F(PackerTest, KeepsBuffersThatItOutgrewUntilTheyAreTaken) {
  std::vector<float> x(1000, 1);
  Packer packer(lane_, 64);
  for (const std::size_t count : {std::size_t{10}, x.size()})
    packer.reducescatter({x.data(), x.data(), count}, std::vector<std::size_t>{count}, count, DType::float32,
                         {DType::float16, ReduceOp::sum, 1.0, 1.0, 1});
  EXPECT_EQ(packer.take_outgrown().size(), 1u);
  EXPECT_TRUE(packer.take_outgrown().empty());
}

// NCCL's windows must be alike on all ranks.
TEST_F(PackerTest, TakesAsMuchMemoryOnEveryRankForPartsOfAnySize) {
  std::vector<float> x(1000, 1);
  const std::vector<std::size_t> counts{300, 700, 0};
  for (const std::size_t own : counts) {
    Packer packer(lane_, 64);
    packer.reducescatter({x.data(), x.data(), x.size()}, counts, own, DType::float32,
                         {DType::float16, ReduceOp::sum, 1.0, 1.0, 1});
  }
  EXPECT_EQ(witness_->sizes, std::vector<std::size_t>(3, 2048 + 2 * 700));
}

TEST_F(PackerTest, NotesWhatItDoesOnlyForWhoWantsToKnow) {
  std::vector<float> small{1, 2};
  const Segment piece{small.data(), small.data(), 2};
  Packer packer(lane_, 1000);
  for (const bool wanted : {false, true, false}) {
    packer.note_spans(wanted);
    packer.allreduce({&piece, 1}, DType::float32, {DType::float32, ReduceOp::sum, 1.0, 1.0, 1});
    EXPECT_EQ(packer.spans().size(), wanted ? 3u : 0u);
  }
}

TEST_F(PackerTest, TakesNoMoreMemoryThanTheTensorsNeed) {
  for (const DType wire : {DType::float32, DType::float16}) {
    std::vector<float> x{1, 2, 3};
    Packer packer(lane_, std::size_t{1} << 60);  // whatever there is, at once
    const Segment piece{x.data(), x.data(), x.size()};
    packer.allreduce({&piece, 1}, DType::float32, {wire, ReduceOp::sum, 2.0, 1.0, 1});
    EXPECT_EQ(x, (std::vector<float>{2, 4, 6}));
  }
}

}  // namespace
}  // namespace hora
