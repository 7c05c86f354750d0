// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/end_report.h"

#include "core/base/bytes.h"

namespace hora {

Bytes encode(const EndReport& report) {
  Writer out;
  out.string(report.error.substr(0, kMostErrorBytes)).string(report.where.substr(0, kMostWhereBytes));
  out.string(report.trace.size() > kMostTraceBytes ? std::string() : report.trace);
  return out.take();
}

EndReport decode_end_report(std::span<const std::byte> bytes) {
  Reader in(bytes);
  EndReport report;
  report.error = in.string(kMostErrorBytes);
  report.where = in.string(kMostWhereBytes);
  report.trace = in.string(kMostTraceBytes);
  in.finish();
  return report;
}

Bytes encode(const GaveUp& report) {
  Writer out;
  out.string(report.why.substr(0, kMostErrorBytes)).string(report.dump.substr(0, kMostWhereBytes));
  return out.take();
}

GaveUp decode_gave_up(std::span<const std::byte> bytes) {
  Reader in(bytes);
  GaveUp report;
  report.why = in.string(kMostErrorBytes);
  report.dump = in.string(kMostWhereBytes);
  in.finish();
  return report;
}

}  // namespace hora
