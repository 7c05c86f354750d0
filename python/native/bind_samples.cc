// SPDX-License-Identifier: Apache-2.0
#include "python/native/bind_samples.h"

#include "frameworks/samples/permutation.h"
#include "frameworks/samples/pieces.h"

#include <pybind11/stl.h>

#include <utility>

namespace py = pybind11;

namespace hora {
namespace {

using samples::Permutation;
using samples::Piece;
using Places = std::pair<std::int64_t, std::int64_t>;

Places places_of(const Piece& piece) { return {piece.first, piece.last}; }

std::vector<Places> microbatches(const Places& step, std::int64_t microbatch, int rank, int ranks) {
  std::vector<Places> places;
  for (const auto& piece : samples::microbatches({step.first, step.second}, microbatch, rank, ranks))
    places.push_back(places_of(piece));
  return places;
}

}  // namespace

void bind_samples(py::module_& module) {
  module.def("mixed_seed",
             [](const std::vector<std::uint64_t>& numbers) { return samples::mixed_seed(numbers); });
  module.def("microbatches", microbatches);
  module.def("share", [](const Places& step, int rank, int ranks) {
    return places_of(samples::share({step.first, step.second}, rank, ranks));
  });
  py::class_<Permutation>(module, "Permutation")
      .def(py::init<std::uint64_t, std::uint64_t, std::uint64_t>())
      .def("numbers", [](const Permutation& order, std::int64_t first, std::int64_t last) {
        return order.numbers({first, last});
      });
}

}  // namespace hora
