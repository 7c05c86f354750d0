// SPDX-License-Identifier: Apache-2.0
#include "core/compose/adasum.h"

#include "core/backend/local/rendezvous.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <mutex>
#include <random>
#include <vector>

namespace hora {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Vector combined(const Vector& a, const Vector& b) {
  const double of_a = dot(a, a) == 0 ? 1 : 1 - dot(a, b) / (2 * dot(a, a));
  const double of_b = dot(b, b) == 0 ? 1 : 1 - dot(a, b) / (2 * dot(b, b));
  Vector result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = of_a * a[i] + of_b * b[i];
  return result;
}

Vector reference(std::vector<Vector> vectors) {
  while (vectors.size() > 1) {
    std::vector<Vector> next;
    for (std::size_t i = 0; i + 1 < vectors.size(); i += 2)
      next.push_back(combined(vectors[i], vectors[i + 1]));
    if (vectors.size() % 2 == 1) next.push_back(vectors.back());
    vectors = std::move(next);
  }
  return vectors.front();
}

Vector random_vector(unsigned seed, std::size_t length) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Vector values(length);
  for (auto& value : values) value = normal(random);
  return values;
}

/// Adasum of two segments on some ranks; each segment's result on every rank.
std::vector<std::vector<Vector>> run(int ranks, const std::vector<std::vector<Vector>>& inputs) {
  const auto rendezvous = std::make_shared<local::Rendezvous>(ranks);
  std::vector<std::vector<Vector>> results(inputs);
  run_ranks(ranks, [&](int rank) {
    const auto collective = local::make_local_collective(rendezvous, rank);
    auto& own = results[static_cast<std::size_t>(rank)];
    std::vector<Segment> segments;
    for (auto& vector : own) segments.push_back({vector.data(), vector.data(), vector.size()});
    adasum(*collective, rank, ranks, segments, DType::float64, DType::float64, 1.0, 1.0);
  });
  return results;
}

TEST(Adasum, IsATreeOfPairsForAnyNumberOfRanksAndEachSegmentByItself) {
  for (const int ranks : {1, 2, 3, 4, 5, 7}) {
    SCOPED_TRACE(ranks);
    std::vector<std::vector<Vector>> inputs;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto seed = static_cast<unsigned>(rank);
      inputs.push_back({random_vector(seed, 101), random_vector(seed + 50, 3)});
    }
    const auto results = run(ranks, inputs);
    for (std::size_t segment = 0; segment < 2; ++segment) {
      std::vector<Vector> vectors;
      for (const auto& of_rank : inputs) vectors.push_back(of_rank[segment]);
      const Vector expected = reference(vectors);
      for (const auto& of_rank : results) {
        EXPECT_EQ(of_rank[segment], results.front()[segment]) << "the same bits on every rank";
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_NEAR(of_rank[segment][i], expected[i], 1e-12);
      }
    }
  }
}

TEST(Adasum, OfOrthogonalVectorsIsTheirSumAndOfEqualOnesTheirMean) {
  EXPECT_EQ(run(2, {{{1, 0}}, {{0, 3}}}).front().front(), (Vector{1, 3}));
  EXPECT_EQ(run(2, {{{4, 2}}, {{4, 2}}}).front().front(), (Vector{4, 2}));
  EXPECT_EQ(run(2, {{{0, 0}}, {{5, 1}}}).front().front(), (Vector{5, 1})) << "zeros have no direction";
}

TEST(Adasum, ScalesAndTakesNarrowElements) {
  const auto rendezvous = std::make_shared<local::Rendezvous>(2);
  run_ranks(2, [&](int rank) {
    const auto collective = local::make_local_collective(rendezvous, rank);
    std::vector<float> values{rank == 0 ? 2.0F : 0.0F, rank == 0 ? 0.0F : 4.0F};
    const Segment segment{values.data(), values.data(), 2};
    adasum(*collective, rank, 2, {&segment, 1}, DType::float32, DType::bfloat16, 0.5, 3.0);
    EXPECT_EQ(values, (std::vector<float>{3, 6}));
  });
}

}  // namespace
}  // namespace hora
