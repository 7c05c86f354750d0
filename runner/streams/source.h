// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <cstddef>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace hora::hrun {

/// One output of a rank, as it comes.
class OutputSource {
 public:
  virtual ~OutputSource() = default;

  /// The descriptor that poll() waits on until there is something to read. It is -1 where nothing can be
  /// waited for; `ready` then says whether there is something.
  [[nodiscard]] virtual int fd() const = 0;
  [[nodiscard]] virtual bool ready() const = 0;
  /// The bytes that are there, as many as fit; nothing where there are none for now, or will be none.
  virtual std::size_t read(std::span<char> into) = 0;
  [[nodiscard]] virtual bool ended() const = 0;
  /// All who should write have ended. Somebody else may hold the output open, and even go on writing: what it
  /// holds now is all that is still to come.
  virtual void expect_no_more() = 0;
};

/// The pipe of a rank of this machine, or the master side of its terminal.
class PipeSource final : public OutputSource {
 public:
  explicit PipeSource(Descriptor pipe);

  [[nodiscard]] int fd() const override { return pipe_.fd(); }
  [[nodiscard]] bool ready() const override { return false; }
  std::size_t read(std::span<char> into) override;
  [[nodiscard]] bool ended() const override { return !pipe_; }
  void expect_no_more() override;

 private:
  Descriptor pipe_;
  bool ends_at_pause_ = false;  // it is a terminal, which does not say how much it holds
  std::size_t left_ = std::numeric_limits<std::size_t>::max();  // bytes until its end, once that is known
};

/// The output of a rank that has no process.
[[nodiscard]] std::shared_ptr<OutputSource> no_output();

/// The outputs of the processes of a rank, which come one after the other.
class SourceQueue {
 public:
  explicit SourceQueue(std::shared_ptr<OutputSource> first) { add(std::move(first)); }

  /// The one that is read now.
  OutputSource* operator->() const { return sources_.front().get(); }
  /// Another process writes from here on. Nobody waits for those who hold a former one's output open.
  void add(std::shared_ptr<OutputSource> source) {
    expect_no_more();
    sources_.push_back(std::move(source));
    if (std::exchange(done_, false)) sources_.pop_front();
  }
  /// The end of the present one has been passed on: goes on to the next one, or is done until there is one.
  void move_on() {
    done_ = sources_.size() == 1;
    if (!done_) sources_.pop_front();
  }
  /// Whether the ends of all that were added have been passed on.
  [[nodiscard]] bool done() const { return done_; }
  void expect_no_more() {
    for (const auto& source : sources_) source->expect_no_more();
  }

 private:
  std::deque<std::shared_ptr<OutputSource>> sources_;  // never empty
  bool done_ = false;
};

/// The bytes that have come from another machine, and were not read yet.
class Inbox final : public OutputSource {
 public:
  void put(std::string_view bytes) { bytes_ += bytes; }
  /// Nothing more will come.
  void end() { closed_ = true; }
  /// How much was read since the last call: as much may be sent anew.
  std::size_t take_credit() { return std::exchange(credit_, 0); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool closed() const { return closed_; }

  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] bool ready() const override { return !bytes_.empty(); }
  std::size_t read(std::span<char> into) override;
  [[nodiscard]] bool ended() const override { return closed_ && bytes_.empty(); }
  void expect_no_more() override {}  // the other machine says so

 private:
  std::string bytes_;
  std::size_t credit_ = 0;
  bool closed_ = false;
};

}  // namespace hora::hrun
