// SPDX-License-Identifier: Apache-2.0
// The contract of every Collective. Inputs are small whole numbers, exact in every dtype, so results are
// compared by ==.
#include "test/conformance/collective_suite.h"

#include "core/base/half.h"
#include "core/compose/block_float_sums.h"
#include "core/device/host_stream.h"
#include "test/support/block_floats.h"
#include "test/support/elements.h"
#include "test/support/repeating.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

namespace hora {

std::vector<CollectiveBackend>& collective_backends() {
  static std::vector<CollectiveBackend> backends;
  return backends;
}

namespace {

using Collectives = std::vector<std::unique_ptr<Collective>>;
using RankMain = std::function<void(int rank, Collective& collective)>;

/// Memory of one kind that holds elements: private, or from the collective. They repeat after kPeriod of
/// them.
class Tensor {
 public:
  Tensor(Collective& collective, bool owned, DType dtype, std::size_t count) : dtype_(dtype), count_(count) {
    const std::size_t bytes = count * size_of(dtype);
    if (owned) {
      lent_ = collective.allocate(bytes);
    } else {
      private_.resize(bytes);
    }
  }
  void* data() { return lent_ ? static_cast<void*>(lent_.get()) : private_.data(); }
  /// Element i becomes `of(i)`.
  template <typename Function>
  void fill(const Function& of) {
    fill_repeating(data(), dtype_, count_, of);
  }
  /// Element i is `of(i)`.
  template <typename Function>
  testing::AssertionResult holds(const Function& of) {
    return holds_repeating(data(), dtype_, count_, of);
  }
  /// Elements i from `begin` up to `end` are `of(i)`.
  template <typename Function>
  testing::AssertionResult holds(std::size_t begin, std::size_t end, const Function& of) {
    return holds_repeating(static_cast<std::byte*>(data()) + begin * size_of(dtype_), dtype_, end - begin,
                           [&](std::size_t i) { return of(begin + i); });
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  DType dtype_;
  std::size_t count_;
  std::shared_ptr<std::byte> lent_;
  std::vector<std::byte> private_;
};

/// All of `data` is `value`.
template <typename T>
testing::AssertionResult holds_only(const std::vector<T>& data, T value) {
  const bool repeats = data.size() > 1 && std::memcmp(&data[1], &data[0], (data.size() - 1) * sizeof(T)) == 0;
  const auto end =
      repeats ? data.begin() + 1 : data.end();  // a byte comparison is fast also under sanitizers
  const auto other = std::find_if(data.begin(), end, [=](T each) { return each != value; });
  if (other == end) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "element " << other - data.begin() << " of " << data.size() << " is "
                                     << +*other << ", and should be " << +value;
}

struct Setting {
  CollectiveBackend backend;
  int ranks = 1;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.backend.name << " with " << setting.ranks << " ranks";
}

class CollectiveSuite : public testing::TestWithParam<Setting> {
 protected:
  static int ranks() { return GetParam().ranks; }
  static void run(const RankMain& rank_main) {
    const Collectives collectives = GetParam().backend.connect(ranks());
    run_ranks(ranks(), [&](int rank) {
      const auto& collective = collectives[static_cast<std::size_t>(rank)];
      if (collective) rank_main(rank, *collective);
    });
  }
};

int value(int rank, std::size_t index) {
  return static_cast<int>((index * 3 + static_cast<std::size_t>(rank)) % 4);
}

double expected(DType dtype, ReduceOp op, int ranks, std::size_t index) {
  double result = value(0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = value(rank, index);
    if (op == ReduceOp::sum) result += next;
    if (op == ReduceOp::product) result *= next;
    if (op == ReduceOp::min) result = std::min(result, next);
    if (op == ReduceOp::max) result = std::max(result, next);
    if (op == ReduceOp::bit_xor) result = static_cast<int>(result) ^ static_cast<int>(next);
    if (op == ReduceOp::logical_and) result = static_cast<double>(result != 0 && next != 0);
  }
  return dtype == DType::boolean || is_logical(op) ? static_cast<double>(result != 0) : result;
}

TEST_P(CollectiveSuite, ReducesEveryDTypeByEveryOpAtEverySize) {
  run([](int rank, Collective& collective) {
    for (const DType dtype : reduced_dtypes()) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product,
                                ReduceOp::bit_xor, ReduceOp::logical_and}) {
        if (is_bitwise(op) && (is_float(dtype) || dtype == DType::boolean)) continue;
        if (!GetParam().backend.reduces({dtype, op, 1.0, 1.0, 1})) continue;
        for (const std::size_t count : {1, 33, 5000, 70000}) {
          if (count > 5000 && op != ReduceOp::sum) continue;
          Tensor tensor(collective, count % 2 == 0, dtype, count);
          const bool truth = dtype == DType::boolean && !GetParam().backend.knows_any_truth;
          tensor.fill(
              [&](std::size_t i) { return truth ? static_cast<int>(value(rank, i) != 0) : value(rank, i); });
          const Segment segment{tensor.data(), tensor.data(), count};
          collective.allreduce({&segment, 1}, {dtype, op, 1.0, 1.0, 1});
          ASSERT_TRUE(tensor.holds([&](std::size_t i) { return expected(dtype, op, ranks(), i); }));
        }
      }
    }
  });
}

TEST_P(CollectiveSuite, ReducesManySegmentsOfAnyLengthAndPlaceAtOnce) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    run([seed](int rank, Collective& collective) {
      std::mt19937 lengths(seed);                                     // the same on all ranks
      std::mt19937 places(seed * 100 + static_cast<unsigned>(rank));  // different ones
      std::vector<Tensor> inputs;
      std::vector<Tensor> outputs;
      std::vector<Segment> segments;
      const std::size_t segment_count = lengths() % 12 + 1;
      for (std::size_t s = 0; s < segment_count; ++s) {
        const std::size_t count = lengths() % (seed % 2 == 0 ? 300 : 60000);
        inputs.emplace_back(collective, places() % 2 == 0, DType::float32, count);
        outputs.emplace_back(collective, places() % 2 == 0, DType::float32, count);
        inputs.back().fill([&](std::size_t i) { return value(rank, i + s); });
      }
      const bool in_place = places() % 2 == 0;
      for (std::size_t s = 0; s < segment_count; ++s) {
        segments.push_back(
            {inputs[s].data(), in_place ? inputs[s].data() : outputs[s].data(), inputs[s].count()});
      }
      collective.allreduce(segments, {DType::float32, ReduceOp::sum, 1.0, 1.0, 1});
      for (std::size_t s = 0; s < segment_count; ++s) {
        auto& result = in_place ? inputs[s] : outputs[s];
        ASSERT_TRUE(result.holds([&](std::size_t i) {
          return expected(DType::float32, ReduceOp::sum, ranks(), i + s);
        })) << "segment "
            << s;
      }
    });
  }
}

TEST_P(CollectiveSuite, GivesTheSameBitsHoweverTensorsAreCutTogether) {
  std::mutex mutex;
  std::vector<std::vector<float>> results;
  run([&](int rank, Collective& collective) {
    std::mt19937 random(static_cast<unsigned>(rank) + 1);
    std::normal_distribution<float> normal;
    std::vector<float> original(100000);
    for (auto& x : original) x = normal(random);
    for (const std::size_t pieces : {1, 2, 7}) {
      std::vector<float> data = original;
      std::vector<Segment> segments;
      for (std::size_t p = 0; p < pieces; ++p) {
        const std::size_t begin = data.size() * p / pieces;
        const std::size_t end = data.size() * (p + 1) / pieces;
        segments.push_back({data.data() + begin, data.data() + begin, end - begin});
      }
      collective.allreduce(segments, {DType::float32, ReduceOp::sum, 1.0, 1.0, ranks()});
      const std::lock_guard lock(mutex);
      results.push_back(std::move(data));
    }
  });
  for (const auto& result : results) {
    ASSERT_EQ(std::memcmp(result.data(), results.front().data(), result.size() * sizeof(float)), 0);
  }
}

/// Packs float32 elements of its own into a buffer, and notes which have come.
class Elsewhere final : public Packing {
 public:
  Elsewhere(int rank, std::byte* buffer, std::size_t count) : elements(count), buffer_(buffer) {
    fill_repeating(elements.data(), DType::float32, count, [rank](std::size_t i) { return value(rank, i); });
  }

  void pack(std::size_t begin, std::size_t count) override {
    std::memcpy(buffer_ + begin * sizeof(float), elements.data() + begin, count * sizeof(float));
    packed_.emplace(begin, begin + count);
  }
  void unpack(std::size_t begin, std::size_t count) override {
    std::memcpy(elements.data() + begin, buffer_ + begin * sizeof(float), count * sizeof(float));
    unpacked_.emplace(begin, begin + count);
  }
  [[nodiscard]] bool each_came_once() const { return covers(packed_) && covers(unpacked_); }

  std::vector<float> elements;

 private:
  using Ranges = std::multimap<std::size_t, std::size_t>;  // begin, end

  [[nodiscard]] bool covers(const Ranges& ranges) const {
    std::size_t next = 0;
    for (const auto& [begin, end] : ranges) {
      if (begin != next) return false;
      next = end;
    }
    return next == elements.size();
  }

  std::byte* buffer_;
  Ranges packed_;
  Ranges unpacked_;
};

TEST_P(CollectiveSuite, ReducesWhatIsPackedMeanwhile) {
  run([](int rank, Collective& collective) {
    for (const std::size_t count : {1, 5000, 700'001}) {
      const auto buffer = collective.allocate(count * sizeof(float));
      std::memset(buffer.get(), 0xFF, count * sizeof(float));  // not a number
      Elsewhere packing(rank, buffer.get(), count);
      collective.allreduce_packed({buffer.get(), buffer.get(), count, true},
                                  {DType::float32, ReduceOp::sum, 1.0, 1.0, 1}, packing);
      EXPECT_TRUE(packing.each_came_once());
      ASSERT_TRUE(holds_repeating(packing.elements.data(), DType::float32, count, [](std::size_t i) {
        return expected(DType::float32, ReduceOp::sum, ranks(), i);
      })) << count;
    }
  });
}

/// The sum of one number from each rank, rounded for each host, if there are several, and then once; or after
/// each addition, where a backend does that.
float sum_by_hosts(const CollectiveBackend& backend, const std::vector<float>& numbers) {
  std::map<int, float> sums;
  float rounded = 0;
  for (const float number : numbers) rounded = float_from_float16(float16_from(rounded + number));
  if (backend.rounds_additions) return rounded;
  for (std::size_t rank = 0; rank < numbers.size(); ++rank)
    sums[backend.host(static_cast<int>(rank))] += numbers[rank];
  float sum = 0;
  for (const auto& [host, part] : sums)
    sum += sums.size() > 1 ? float_from_float16(float16_from(part)) : part;
  return sum;
}

TEST_P(CollectiveSuite, SumsSixteenBitFloatsWithOneRoundingOnEachLevel) {
  run([](int rank, Collective& collective) {
    std::vector<std::uint16_t> data(20000, float16_from(rank == 0 ? 2048.0F : 1.0F));
    const Segment segment{data.data(), data.data(), data.size()};
    collective.allreduce({&segment, 1}, {DType::float16, ReduceOp::sum, 1.0, 1.0, 1});
    std::vector<float> numbers(static_cast<std::size_t>(ranks()), 1.0F);
    numbers.front() = 2048.0F;
    const auto sum = float16_from(sum_by_hosts(GetParam().backend, numbers));
    ASSERT_TRUE(holds_only(data, sum));
  });
}

TEST_P(CollectiveSuite, MeansOfLargeSixteenBitFloatsDoNotOverflow) {
  run([](int /*rank*/, Collective& collective) {
    const float large = 61440.0F;  // 15 * 2^12: its parts are exact, its double is infinite
    for (const std::size_t count : {100, 200000}) {
      std::vector<std::uint16_t> data(count, float16_from(large));
      const Segment segment{data.data(), data.data(), data.size()};
      const auto allreduce = [&](double postscale, int divisor) {
        collective.allreduce({&segment, 1}, {DType::float16, ReduceOp::sum, 1.0, postscale, divisor});
      };
      allreduce(1.0, ranks());
      ASSERT_TRUE(holds_only(data, float16_from(large)));
      allreduce(-1.0 / ranks(), 1);
      ASSERT_TRUE(holds_only(data, float16_from(-large)));
      allreduce(4.0, 4 * ranks());
      ASSERT_TRUE(holds_only(data, float16_from(-large)));
    }
  });
}

TEST_P(CollectiveSuite, MeansOfIntegersAreDividedOnceAtTheEnd) {
  run([](int rank, Collective& collective) {
    for (const DType dtype : {DType::int8, DType::uint8, DType::int32, DType::int64}) {
      if (!GetParam().backend.reduces({dtype, ReduceOp::sum, 1.0, 1.0, ranks()})) continue;
      for (const std::size_t count : {10, 100000}) {
        Tensor tensor(collective, true, dtype, count);
        tensor.fill([&](std::size_t) { return rank == 0 ? 120 : 101; });
        const Segment segment{tensor.data(), tensor.data(), count};
        collective.allreduce({&segment, 1}, {dtype, ReduceOp::sum, 1.0, 1.0, ranks()});
        const int mean = (120 + 101 * (ranks() - 1)) / ranks();
        ASSERT_TRUE(tensor.holds([&](std::size_t) { return mean; }));
      }
    }
  });
}

/// Ranks bring the ends of the dtype's range and what lies beside them, and small numbers of both signs.
template <typename T>
void average_the_extremes(int rank, int ranks, Collective& collective, DType dtype) {
  __extension__ using Int128 = __int128;
  using Limits = std::numeric_limits<T>;
  const std::array<T, 8> values{Limits::max(), Limits::min(),     Limits::max(),     static_cast<T>(-3),
                                T{1},          Limits::max() - 1, Limits::min() + 1, T{2}};
  const auto brought = [&](int by, std::size_t i) {  // from all the same to all different
    return values[(i + static_cast<std::size_t>(by) * (i / values.size())) % values.size()];
  };
  for (const std::size_t count : {64, 70'001}) {
    std::vector<T> data(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = brought(rank, i);
    const Segment segment{data.data(), data.data(), count};
    collective.allreduce({&segment, 1}, {dtype, ReduceOp::sum, 1.0, 1.0, ranks});
    for (std::size_t i = 0; i < count; ++i) {
      Int128 sum = 0;
      for (int by = 0; by < ranks; ++by) sum += brought(by, i);
      ASSERT_EQ(data[i], static_cast<T>(sum / ranks)) << name(dtype) << ", element " << i;
    }
  }
}

TEST_P(CollectiveSuite, AveragesOfIntegersAreExactAndTruncatedTowardZero) {
  run([](int rank, Collective& collective) {
    const auto average = [&]<typename T>(T /*zero*/, DType dtype) {
      if (GetParam().backend.reduces({dtype, ReduceOp::sum, 1.0, 1.0, ranks()}))
        average_the_extremes<T>(rank, ranks(), collective, dtype);
    };
    average(std::uint8_t{0}, DType::uint8);
    average(std::int8_t{0}, DType::int8);
    average(std::int16_t{0}, DType::int16);
    average(std::int32_t{0}, DType::int32);
    average(std::int64_t{0}, DType::int64);
  });
}

TEST_P(CollectiveSuite, TwoRunsGiveTheSameBits) {
  std::mutex mutex;
  std::vector<std::vector<float>> results;
  for (int attempt = 0; attempt < 2; ++attempt) {
    run([&](int rank, Collective& collective) {
      std::vector<float> data(500'000);
      auto next = static_cast<std::uint32_t>(rank);  // of numbers whose sums depend on their order
      for (auto& x : data) x = static_cast<float>(static_cast<std::int32_t>(next += 2'654'435'761U));
      const Segment segment{data.data(), data.data(), data.size()};
      collective.allreduce({&segment, 1}, {DType::float32, ReduceOp::sum, 1.0, 1.0, ranks()});
      const std::lock_guard lock(mutex);
      results.push_back(std::move(data));
    });
  }
  for (const auto& result : results)
    ASSERT_EQ(std::memcmp(result.data(), results.front().data(), result.size() * sizeof(float)), 0);
}

TEST_P(CollectiveSuite, ScalesBeforeAndAfter) {
  run([](int rank, Collective& collective) {
    for (const std::size_t count : {3, 50000}) {
      std::vector<double> data(count, rank + 1);
      const Segment segment{data.data(), data.data(), count};
      collective.allreduce({&segment, 1}, {DType::float64, ReduceOp::sum, 0.5, 4.0, ranks()});
      const double sum = ranks() * (ranks() + 1) / 2.0;
      ASSERT_TRUE(holds_only(data, sum * 0.5 * 4.0 / ranks()));
    }
  });
}

TEST_P(CollectiveSuite, BroadcastsFromEveryRoot) {
  run([](int rank, Collective& collective) {
    for (int root = 0; root < ranks(); ++root) {
      for (const std::size_t count : {1, 4096, 400000}) {
        if (count > 4096 && root > 0 && root < ranks() - 1) continue;  // from the ends alone
        for (const bool owned : {false, true}) {
          Tensor tensor(collective, owned, DType::int32, count);
          const auto from = [&](int whose) {
            return [=](std::size_t i) { return whose * 1000 + static_cast<int>(i % 100); };
          };
          tensor.fill(from(rank));
          collective.broadcast(tensor.data(), count * 4, root);
          ASSERT_TRUE(tensor.holds(from(root)));
        }
      }
    }
  });
}

TEST_P(CollectiveSuite, BroadcastsSeveralPiecesAtOnce) {
  run([](int rank, Collective& collective) {
    // A handful of bytes all together; many short pieces; and long ones. In turn they are cut from memory of
    // the collective's and from other memory, which lies there on each rank differently.
    for (const auto& counts : {std::vector<std::size_t>{1, 2, 0}, std::vector<std::size_t>(100, 3),
                               std::vector<std::size_t>{100001, 5, 60003}}) {
      const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      for (const int root : {0, ranks() - 1}) {
        const auto holds = [](int brings, std::size_t at) {
          return brings * 1000 + static_cast<int>(at % 100);
        };
        std::array<Tensor, 2> tensors{Tensor(collective, rank % 2 == 0, DType::int32, total),
                                      Tensor(collective, rank % 2 != 0, DType::int32, total)};
        std::array<std::size_t, 2> used{};
        std::vector<std::span<std::byte>> pieces;
        for (auto& tensor : tensors) tensor.fill([&](std::size_t at) { return holds(rank, at); });
        for (std::size_t i = 0; i < counts.size(); ++i) {
          const std::size_t from = std::exchange(used[i % 2], used[i % 2] + counts[i]);
          pieces.emplace_back(static_cast<std::byte*>(tensors[i % 2].data()) + from * 4, counts[i] * 4);
        }
        collective.broadcast_all(pieces, root);
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          const auto of = [&](int brings) { return [=](std::size_t at) { return holds(brings, at); }; };
          ASSERT_TRUE(tensors[i].holds(0, used[i], of(root)));
          ASSERT_TRUE(tensors[i].holds(used[i], total, of(rank)));
        }
      }
    }
  });
}

TEST_P(CollectiveSuite, GathersDifferentLengthsInRankOrder) {
  run([](int rank, Collective& collective) {
    for (const std::size_t unit : {0, 3, 9000, 300000}) {
      std::vector<std::size_t> bytes;
      std::size_t total = 0;
      for (int r = 0; r < ranks(); ++r) {
        bytes.push_back(unit * static_cast<std::size_t>((r + 1) % 3));  // some bring nothing
        total += bytes.back();
      }
      const std::vector<unsigned char> input(bytes[static_cast<std::size_t>(rank)],
                                             static_cast<unsigned char>(rank + 1));
      std::vector<unsigned char> output(total, 0xFF);
      collective.allgather(input.data(), output.data(), bytes);
      std::vector<unsigned char> expected;
      for (std::size_t r = 0; r < bytes.size(); ++r)
        expected.insert(expected.end(), bytes[r], static_cast<unsigned char>(r + 1));
      ASSERT_TRUE(output == expected) << "unit " << unit;
    }
  });
}

/// Rank `from` has this many units for rank `to`.
std::size_t units(std::size_t from, std::size_t to) { return (from * 2 + to) % 4; }

void exchange_all(int rank, int ranks, Collective& collective, std::size_t unit) {
  const auto size = static_cast<std::size_t>(ranks);
  const auto own = static_cast<std::size_t>(rank);
  std::vector<std::size_t> bytes;
  for (std::size_t from = 0; from < size; ++from) {
    for (std::size_t to = 0; to < size; ++to) bytes.push_back(units(from, to) * unit);
  }
  std::vector<unsigned char> input;
  std::vector<unsigned char> expected;
  for (std::size_t other = 0; other < size; ++other) {
    input.insert(input.end(), units(own, other) * unit, static_cast<unsigned char>(own * 16 + other));
    expected.insert(expected.end(), units(other, own) * unit, static_cast<unsigned char>(other * 16 + own));
  }
  std::vector<unsigned char> output(expected.size(), 0xFF);
  collective.alltoall(input.data(), output.data(), bytes);
  ASSERT_TRUE(output == expected) << "rank " << rank << " of " << ranks << ", unit " << unit;
}

TEST_P(CollectiveSuite, ExchangesAnyLengthsBetweenAll) {
  run([](int rank, Collective& collective) {
    for (const std::size_t unit : {0, 1, 500, 7000, 600000}) exchange_all(rank, ranks(), collective, unit);
  });
}

TEST_P(CollectiveSuite, ScattersWhatItReducesInAnyParts) {
  run([](int rank, Collective& collective) {
    const auto size = static_cast<std::size_t>(ranks());
    for (const DType dtype : {DType::float32, DType::int64, DType::bfloat16}) {
      for (const std::size_t unit : {0, 1, 900, 150000}) {
        if (unit > 1000 && dtype != DType::float32) continue;  // long ones go one way
        for (const bool owned : {false, true}) {
          std::vector<std::size_t> counts;
          std::size_t total = 0;
          std::size_t begin = 0;
          for (std::size_t r = 0; r < size; ++r) {
            if (static_cast<int>(r) == rank) begin = total;
            counts.push_back(unit * ((r + 1) % 3));  // some get nothing
            total += counts.back();
          }
          Tensor input(collective, owned, dtype, total);
          Tensor output(collective, !owned, dtype, counts[static_cast<std::size_t>(rank)]);
          input.fill([&](std::size_t i) { return value(rank, i); });
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
            collective.reducescatter(input.data(), output.data(), counts, {dtype, op, 1.0, 1.0, 1});
            ASSERT_TRUE(output.holds([&](std::size_t i) { return expected(dtype, op, ranks(), begin + i); }));
          }
        }
      }
    }
  });
}

/// As the engine makes them of a collective's other calls; several tensors, of any length, in several rounds.
TEST_P(CollectiveSuite, SumsBlockScaledFloatsToTheSameBitsEverywhere) {
  const std::vector<std::size_t> counts{0, 1, 31, 32, 33, 5'000};
  const auto floats = [&](int rank, std::size_t which) {
    std::mt19937 random(static_cast<unsigned>(rank) * 10 + static_cast<unsigned>(which));
    std::normal_distribution<float> normal(0.0F, 1.0F + static_cast<float>(which));
    std::vector<float> values(counts[which]);
    for (auto& value : values) value = normal(random);
    return values;
  };
  for (const DType format : {DType::float8_e4m3fn, DType::float8_e5m2}) {
    std::vector<std::vector<float>> expected;
    for (std::size_t which = 0; which < counts.size(); ++which) {
      std::vector<std::vector<float>> inputs;
      for (int rank = 0; rank < ranks(); ++rank) inputs.push_back(floats(rank, which));
      expected.push_back(SlowBlockFloats(format).sum(inputs, 0.5F, 0.25F));
    }
    run([&](int rank, Collective& collective) {
      std::vector<std::vector<float>> own;
      std::vector<Segment> segments;
      for (std::size_t which = 0; which < counts.size(); ++which) own.push_back(floats(rank, which));
      for (auto& each : own) segments.push_back({each.data(), each.data(), each.size()});
      const auto stream = make_host_stream();
      std::shared_ptr<std::byte> memory;
      BlockFloatSums sums(*stream, collective, rank, ranks(), 3'000, [&](std::size_t bytes) {
        memory = collective.allocate(bytes);
        return memory.get();
      });
      sums.allreduce(segments, DType::float32, {format, ReduceOp::sum, 0.5, 0.5, 2}, nullptr);
      EXPECT_EQ(own, expected);

      // Parts of unlike lengths, none at all, and one that has everything.
      for (const int root : {-1, 0, ranks() - 1}) {
        std::vector<std::size_t> parts(static_cast<std::size_t>(ranks()));
        std::size_t all = 0;
        for (int r = 0; r < ranks(); ++r) {
          const auto length = static_cast<std::size_t>(root < 0    ? r % 3 * 701 + r / 3
                                                       : r == root ? 5'000
                                                                   : 0);
          parts[static_cast<std::size_t>(r)] = length;
          all += length;
        }
        const std::vector<float> ones(all, 1.0F + 0x1p-9F);
        std::vector<float> part(parts[static_cast<std::size_t>(rank)]);
        sums.reducescatter({ones.data(), part.data(), all}, parts, DType::float32, {format, ReduceOp::sum});
        EXPECT_EQ(part, std::vector<float>(part.size(), static_cast<float>(ranks())));
      }
    });
  }
}

// Overlapping ones, used in turns, in one order on all ranks; buffers come from whichever made them.
TEST_P(CollectiveSuite, SplitsIntoSmallerOnesThatWorkSideBySide) {
  run([](int rank, Collective& collective) {
    std::vector<std::vector<int>> sets{{0}, {ranks() - 1}, {}, {}};
    for (int r = 0; r < ranks(); ++r) {
      if (r % 2 == 0) sets[2].push_back(r);
      if (r > 0 || ranks() == 1) sets[3].push_back(r);
    }
    std::vector<std::unique_ptr<Collective>> smaller;
    for (const auto& set : sets) smaller.push_back(collective.split(set));
    for (int round = 0; round < 20; ++round) {
      for (std::size_t s = 0; s < sets.size(); ++s) {
        const auto place = std::find(sets[s].begin(), sets[s].end(), rank) - sets[s].begin();
        const bool member = place < static_cast<std::ptrdiff_t>(sets[s].size());
        ASSERT_EQ(smaller[s] != nullptr, member);
        if (!member) continue;
        const std::size_t count = round % 4 == 0 ? 40000 : 100;
        Tensor tensor(round % 2 == 0 ? collective : *smaller[s], round % 3 != 0, DType::int32, count);
        tensor.fill([&](std::size_t) { return rank + round; });
        const Segment segment{tensor.data(), tensor.data(), count};
        smaller[s]->allreduce({&segment, 1}, {DType::int32, ReduceOp::max, 1.0, 1.0, 1});
        ASSERT_TRUE(tensor.holds([&](std::size_t) { return sets[s].back() + round; }));
        exchange_all(static_cast<int>(place), static_cast<int>(sets[s].size()), *smaller[s], 300);
      }
      const Segment nothing;
      collective.allreduce({&nothing, 1}, {DType::int32, ReduceOp::sum, 1.0, 1.0, 1});
    }
    collective.barrier();
    smaller.clear();
    const auto again = collective.split(sets[2]);
    if (again) again->barrier();
  });
}

TEST_P(CollectiveSuite, NobodyLeavesABarrierBeforeAllHaveCome) {
  const auto come = GetParam().backend.make_counter();
  run([&](int /*rank*/, Collective& collective) {
    for (int round = 1; round <= 50; ++round) {
      come->fetch_add(1);
      collective.barrier();
      ASSERT_GE(come->load(), round * ranks());
    }
  });
}

TEST_P(CollectiveSuite, AnyMixOfCallsKeepsInStep) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    run([seed](int rank, Collective& collective) {
      std::mt19937 random(seed);  // the same calls on all ranks
      for (int call = 0; call < 60; ++call) {
        const std::size_t count = random() % 8 == 0 ? random() % 40000 : random() % 600;
        const int root = static_cast<int>(random() % static_cast<unsigned>(ranks()));
        std::vector<std::int64_t> data(count, rank + call);
        switch (random() % 4) {
          case 0: {
            const Segment segment{data.data(), data.data(), count};
            collective.allreduce({&segment, 1}, {DType::int64, ReduceOp::max, 1.0, 1.0, 1});
            ASSERT_TRUE(holds_only<std::int64_t>(data, ranks() - 1 + call));
            break;
          }
          case 1:
            collective.broadcast(data.data(), count * 8, root);
            ASSERT_TRUE(holds_only<std::int64_t>(data, root + call));
            break;
          case 2: {
            std::vector<std::int64_t> all(count * static_cast<std::size_t>(ranks()));
            std::vector<std::int64_t> expected(all.size());
            const std::vector<std::size_t> bytes(static_cast<std::size_t>(ranks()), count * 8);
            collective.allgather(data.data(), all.data(), bytes);
            for (std::size_t r = 0; r < all.size() / std::max<std::size_t>(count, 1); ++r)
              std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(r * count), count,
                          static_cast<std::int64_t>(r) + call);
            ASSERT_TRUE(all == expected);
            break;
          }
          default: collective.barrier();
        }
      }
    });
  }
}

TEST_P(CollectiveSuite, MemoryIsZeroedAlignedAndOutlivesTheCollective) {
  std::vector<std::shared_ptr<std::byte>> kept(static_cast<std::size_t>(ranks()));
  run([&](int rank, Collective& collective) {
    for (int round = 0; round < 3; ++round) {
      const auto memory = collective.allocate(3 * 1024 * 1024 + 5);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0u);
      for (std::size_t i = 0; i < 3 * 1024 * 1024; i += 4096) ASSERT_EQ(memory.get()[i], std::byte{0});
      std::memset(memory.get(), 1, 3 * 1024 * 1024 + 5);
      kept[static_cast<std::size_t>(rank)] = memory;
    }
    ASSERT_NE(collective.allocate(0), nullptr);
  });
  for (const auto& memory : kept) {
    if (!memory) continue;  // another process's
    EXPECT_EQ(memory.get()[1000], std::byte{1});
  }
}

TEST_P(CollectiveSuite, AbortEndsACallThatWaits) {
  if (ranks() == 1) GTEST_SKIP() << "one rank never waits";
  const Collectives collectives = GetParam().backend.connect(ranks());
  const Status why{Code::aborted, "rank 0 is gone"};
  run_ranks(ranks(), [&](int rank) {
    const auto& collective = collectives[static_cast<std::size_t>(rank)];
    if (rank == 0 || !collective) return;  // rank 0 never comes;
    const std::jthread control(
        [&] { collective->abort(why); });  // what this one's control does when it learns of it
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        collective->barrier();
        ADD_FAILURE() << "the barrier ended without rank 0";
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), why);
      }
    }
  });
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const auto& backend : collective_backends()) {
    for (const int ranks : backend.ranks()) all.push_back({backend, ranks});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Backends, CollectiveSuite, testing::ValuesIn(settings()), [](const auto& param) {
  return param.param.backend.name + "_" + std::to_string(param.param.ranks);
});

}  // namespace
}  // namespace hora
