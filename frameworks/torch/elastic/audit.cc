// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/audit.h"

#include "frameworks/torch/text.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace hora::elastic {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

Audit::Audit(const std::string& folder) {
  std::error_code none;
  std::filesystem::create_directories(folder, none);
  const std::string path = text_of("{}/{}-{}.jsonl", folder, host_name(), ::getpid());
  file_.open(path, std::ios::app);
  if (!file_)
    throw Error(Code::invalid_argument,
                text_of("audit: {} cannot be written: {}", path, std::strerror(errno)));
}

void Audit::write(const Step& step, std::int64_t epoch, std::int64_t number) {
  std::string pieces;
  for (const auto& piece : step.share)
    pieces += text_of("{}[{}, {}]", pieces.empty() ? "" : ", ", piece.first, piece.last);
  file_ << text_of(R"({"step": {}, "epoch": {}, "first": {}, "last": {}, "pieces": [{}], )", number, epoch,
                   step.whole.first, step.whole.last, pieces)
        << text_of(R"("generation": {}, "rank": {}, "ranks": {}})", step.made_by.generation,
                   step.made_by.rank, step.made_by.ranks)
        << std::endl;
}

}  // namespace hora::elastic
