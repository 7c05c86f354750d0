// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/one_generation.h"

#include <hora/status.h>

#include <utility>

namespace hora {
namespace {

class OneGeneration final : public Generations {
 public:
  OneGeneration(const Config& settings, std::function<World(Config&, TimePoint)> connect)
      : settings_(settings), connect_(std::move(connect)) {}

  void on_stop(Stop) override {}

  void await_next(TimePoint deadline) override {
    if (given_) {
      throw Error(
          Code::invalid_argument,
          "this job has one generation: its ranks never change; `hrun --min-np` starts one that goes on "
          "with other ranks");
    }
    Generation generation{{}, settings_};
    generation.world = connect_(generation.config, deadline);
    next_ = std::move(generation);
    given_ = true;
  }
  std::optional<Generation> take_next() override { return std::exchange(next_, std::nullopt); }
  [[nodiscard]] bool has_more() const override { return false; }
  [[nodiscard]] bool change_is_due() const override { return false; }
  void ask_to_leave() override {}
  [[nodiscard]] bool has_left() const override { return false; }
  void session_ended() override {}
  void close() override {}
  void finish(bool) override {}

 private:
  const Config settings_;
  const std::function<World(Config&, TimePoint)> connect_;
  std::optional<Generation> next_;
  bool given_ = false;
};

}  // namespace

std::unique_ptr<Generations> make_one_generation(const Config& settings,
                                                 std::function<World(Config&, TimePoint)> connect) {
  return std::make_unique<OneGeneration>(settings, std::move(connect));
}

}  // namespace hora
