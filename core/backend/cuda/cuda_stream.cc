// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/cuda_stream.h"

#include "core/backend/cuda/flag_pool.h"
#include "core/backend/cuda/kernels.h"
#include "core/backend/cuda/move_table.h"
#include "core/backend/cuda/stream_handle.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

namespace hora::cuda {
namespace {

CUdeviceptr address(const void* place) { return reinterpret_cast<CUdeviceptr>(place); }

class DriversStream final : public CudaStream {
 public:
  DriversStream(std::shared_ptr<const PrimaryContext> context, std::shared_ptr<const KernelModule> kernels,
                std::shared_ptr<EventPool> events)
      : context_(std::move(context)),
        kernels_(std::move(kernels)),
        events_(std::move(events)),
        flags_(std::make_shared<FlagPool>(context_, events_)),
        handle_(context_) {}

  [[nodiscard]] CUstream handle() const override { return handle_.get(); }

  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0 || to == from) return;
    const CurrentContext current(*context_);
    driver().check(driver().memcpy_async(address(to), address(from), bytes, handle()), "cuMemcpyAsync",
                   context_->name());
  }

  void set_bytes(void* to, std::byte value, std::size_t bytes) override {
    if (bytes == 0) return;
    const CurrentContext current(*context_);
    driver().check(
        driver().memset_d8_async(address(to), std::to_integer<unsigned char>(value), bytes, handle()),
        "cuMemsetD8Async", context_->name());
  }

  void move(std::span<const Move> moves, const Conversion& conversion) override {
    const bool floats = is_float(conversion.from);
    const bool looks = conversion.flag != nullptr && floats;
    const bool as_they_are = conversion.to == conversion.from && conversion.factor == 1.0;
    if (as_they_are && !looks) return copy_all(moves, size_of(conversion.from));
    if (!floats || !is_float(conversion.to))
      throw Error(Code::internal, "only floats are cast and multiplied");
    list_.clear();
    for (const auto& each : moves) {
      if (each.to != nullptr && each.count > 0 && !(as_they_are && each.to == each.from))
        list_.push_back(each);
    }
    launch_all(conversion);
    if (!looks) return;
    list_.clear();
    for (const auto& each : moves) {
      const bool only = each.to == nullptr || (as_they_are && each.to == each.from);
      if (only && each.count > 0) list_.push_back({nullptr, each.from, each.count});
    }
    launch_all({conversion.from, conversion.from, 1.0, conversion.flag});
  }

  void sum(void* to, std::span<const void* const> sources, std::size_t count, DType dtype,
           double factor) override {
    if (count == 0) return;
    if (!is_float(dtype) || dtype == DType::float64)
      throw Error(Code::internal, "only floats of 16 and 32 bits are summed");
    const bool large = takes_large<SmallSum, LargeSum>(sources.size());
    if (large) return sum_with(large_sum_, to, sources, count, dtype, factor, true);
    sum_with(small_sum_, to, sources, count, dtype, factor, false);
  }

  void quantize(std::span<const BlockMove> moves, const BlockConversion& conversion) override {
    launch_blocks(moves, conversion, true,
                  [&](bool large) { return kernels_->quantize(conversion.format, conversion.dtype, large); });
  }
  void dequantize(std::span<const BlockMove> moves, const BlockConversion& conversion) override {
    launch_blocks(moves, conversion, false, [&](bool large) {
      return kernels_->dequantize(conversion.dtype, conversion.format, large);
    });
  }
  void sum_blocks(const BlockFloats& to, std::span<const BlockFloats> sources, DType format,
                  std::size_t blocks, double factor) override {
    if (blocks == 0) return;
    const bool large = takes_large<SmallBlockSum, LargeBlockSum>(sources.size());
    if (large) return sum_blocks_with(large_block_sum_, to, sources, format, blocks, factor, true);
    sum_blocks_with(small_block_sum_, to, sources, format, blocks, factor, false);
  }

  [[nodiscard]] std::shared_ptr<std::uint32_t> make_flag() override { return flags_->take(handle()); }
  [[nodiscard]] std::shared_ptr<Event> mark() override { return events_->mark(handle()); }
  void wait(const Event& event) override { event.hold_up(handle()); }

 private:
  [[nodiscard]] const CudaDriver& driver() const { return context_->driver(); }

  void copy_all(std::span<const Move> moves, std::size_t size) {
    list_.clear();
    for (const auto& each : moves) {
      if (each.to != nullptr && each.to != each.from && each.count > 0)
        list_.push_back({each.to, each.from, each.count * size});
    }
    launch_all({DType::uint8, DType::uint8});
  }

  void launch_all(const Conversion& conversion) {
    const auto to_size = static_cast<std::uint32_t>(size_of(conversion.to));
    const auto from_size = static_cast<std::uint32_t>(size_of(conversion.from));
    launch_list(
        std::span<const Move>(list_), small_moves_, large_moves_, conversion,
        [=, this](auto& table, std::span<const Move> left) {
          return fill(table, left, to_size, from_size, kernels_->multiprocessors());
        },
        [&](bool large) {
          const bool bytes = !is_float(conversion.from);
          return bytes ? kernels_->copy(large) : kernels_->move(conversion.to, conversion.from, large);
        });
  }

  /// One launch, or as many as the list needs. `fill_some` puts the first moves of a list into a table.
  template <typename AnyMove, typename Small, typename Large, typename AnyConversion, typename FillSome,
            typename KernelOf>
  void launch_list(std::span<const AnyMove> left, std::unique_ptr<Small>& small,
                   std::unique_ptr<Large>& large, const AnyConversion& conversion, const FillSome& fill_some,
                   const KernelOf& kernel) {
    while (!left.empty()) {
      const bool needs_large = kernels_->has_large() && left.size() > Small::kMost;
      const auto launch_some = [&](auto& table) {
        using Table = typename std::remove_reference_t<decltype(table)>::element_type;
        if (!table) table = std::make_unique<Table>();
        table->flag = conversion.flag;
        table->factor = conversion.factor;
        const Filled filled = fill_some(*table, left);
        launch(kernel(needs_large), filled.tiles, table.get());
        return filled.moves;
      };
      left = left.subspan(needs_large ? launch_some(large) : launch_some(small));
    }
  }

  template <typename Table>
  void sum_with(std::unique_ptr<Table>& table, void* to, std::span<const void* const> sources,
                std::size_t count, DType dtype, double factor, bool large) {
    if (!table) table = std::make_unique<Table>();
    table->to = address(to);
    table->count = count;
    table->factor = factor;
    table->sources = static_cast<std::uint32_t>(sources.size());
    std::transform(sources.begin(), sources.end(), table->from, address);
    std::uint64_t addresses = table->to;
    for (const void* source : sources) addresses |= address(source);
    const auto unit = static_cast<std::uint32_t>(kUnitBytes / size_of(dtype));
    table->unit = addresses % kUnitBytes == 0 ? unit : 1;
    launch(kernels_->sum(dtype, large), cuda::sum_blocks(count, table->unit), table.get());
  }

  /// Whether a sum of so many sources needs the large table.
  template <typename Small, typename Large>
  [[nodiscard]] bool takes_large(std::size_t sources) const {
    const std::uint32_t most = kernels_->has_large() ? Large::kMost : Small::kMost;
    if (sources > 0 && sources <= most) return sources > Small::kMost;
    throw Error(Code::unavailable, fmt::format("cannot sum {} arrays on {}: from 1 to {} with this driver",
                                               sources, context_->name(), most));
  }

  template <typename KernelOf>
  void launch_blocks(std::span<const BlockMove> moves, const BlockConversion& conversion, bool from_source,
                     const KernelOf& kernel) {
    std::vector<BlockMove> filled;
    for (const auto& each : moves) {
      if (each.count > 0) filled.push_back(each);
    }
    launch_list(
        std::span<const BlockMove>(filled), small_blocks_, large_blocks_, conversion,
        [=, this](auto& table, std::span<const BlockMove> left) {
          return fill(table, left, from_source, kernels_->multiprocessors());
        },
        kernel);
  }

  template <typename Table>
  void sum_blocks_with(std::unique_ptr<Table>& table, const BlockFloats& to,
                       std::span<const BlockFloats> sources, DType format, std::size_t blocks, double factor,
                       bool large) {
    if (!table) table = std::make_unique<Table>();
    table->to_elements = address(to.elements);
    table->to_scales = address(to.scales);
    table->count = blocks * kBlockFloats;
    table->factor = factor;
    table->sources = static_cast<std::uint32_t>(sources.size());
    for (std::size_t s = 0; s < sources.size(); ++s) {
      table->elements[s] = address(sources[s].elements);
      table->scales[s] = address(sources[s].scales);
    }
    const Walk walk = block_walk(table->count);
    table->tile_units = tile_units_for(walk.units, kernels_->multiprocessors());
    launch(kernels_->sum_blocks(format, large), static_cast<std::uint32_t>(tiles_of(walk, table->tile_units)),
           table.get());
  }

  void launch(CUfunction kernel, std::uint32_t blocks, void* table) {
    const CurrentContext current(*context_);
    driver().check(driver().launch_kernel(kernel, blocks, 1, 1, kThreads, 1, 1, 0, handle(), &table, nullptr),
                   "cuLaunchKernel", context_->name());
  }

  const std::shared_ptr<const PrimaryContext> context_;
  const std::shared_ptr<const KernelModule> kernels_;
  const std::shared_ptr<EventPool> events_;
  const std::shared_ptr<FlagPool> flags_;
  const StreamHandle handle_;
  std::vector<Move> list_;
  // The tables that the driver copies at a launch.
  std::unique_ptr<SmallMoves> small_moves_;
  std::unique_ptr<LargeMoves> large_moves_;
  std::unique_ptr<SmallSum> small_sum_;
  std::unique_ptr<LargeSum> large_sum_;
  std::unique_ptr<SmallBlocks> small_blocks_;
  std::unique_ptr<LargeBlocks> large_blocks_;
  std::unique_ptr<SmallBlockSum> small_block_sum_;
  std::unique_ptr<LargeBlockSum> large_block_sum_;
};

}  // namespace

std::unique_ptr<CudaStream> make_cuda_stream(std::shared_ptr<const PrimaryContext> context,
                                             std::shared_ptr<const KernelModule> kernels,
                                             std::shared_ptr<EventPool> events) {
  return std::make_unique<DriversStream>(std::move(context), std::move(kernels), std::move(events));
}

}  // namespace hora::cuda
