//===- WriteTrace.cpp - timelines as Chrome traces ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The format: "Trace Event Format", which chrome://tracing and Perfetto read. Times in it are
// microseconds.
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Timeline.h"

#include "tandem/Program/AppendTo.h"
#include "tandem/Program/Files.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

namespace tandem::timeline {

namespace {

using Kind = sp::CommandKind;

std::string jsonText(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const char *categoryName(Category category) {
  switch (category) {
  case Category::Compute:
    return "compute";
  case Category::Communication:
    return "communication";
  default:
    return "waiting";
  }
}

class Writer {
public:
  Writer(const Timeline &timeline, std::FILE *file, uint32_t ranks)
      : timeline(timeline), file(file), ranks(ranks) {}

  bool run() {
    appendTo(out,
             "{{\"displayTimeUnit\":\"ns\",\n\"tandem\":{{\"version\":1,\"program\":{},"
             "\"origin\":{},\"seconds\":{:.9g},\"ranks\":{}}},\n\"traceEvents\":[\n",
             jsonText(timeline.program), jsonText(timeline.origin), timeline.seconds,
             timeline.ranks.size());
    for (const Name &name : timeline.names) {
      texts.push_back(jsonText(name.text));
      locations.push_back(jsonText(name.location));
    }
    for (uint32_t rank = 0; rank < ranks; ++rank)
      tracks(rank);
    for (uint32_t rank = 0; rank < ranks; ++rank)
      for (const Span &span : timeline.ranks[rank])
        write(rank, span);
    uint64_t id = 0;
    for (const Flow &flow : timeline.flows)
      if (flow.fromRank < ranks && flow.toRank < ranks)
        write(flow, ++id);
    appendTo(out, "\n]}}\n");
    return flush();
  }

private:
  void separate() {
    if (!first)
      buffer += ",\n";
    first = false;
    if (buffer.size() > (1u << 20))
      good &= flush();
  }

  bool flush() {
    good &= std::fwrite(buffer.data(), 1, buffer.size(), file) == buffer.size();
    buffer.clear();
    return good;
  }

  void tracks(uint32_t rank) {
    separate();
    appendTo(out,
             R"({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":"rank {0}"}}}},)"
             "\n"
             R"({{"ph":"M","pid":{0},"name":"process_sort_index","args":{{"sort_index":{0}}}}})",
             rank);
    std::vector<char> seen;
    for (const Span &span : timeline.ranks[rank]) {
      if (span.stream >= seen.size())
        seen.resize(span.stream + 1u);
      if (seen[span.stream])
        continue;
      seen[span.stream] = 1;
      separate();
      appendTo(out, R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}})",
               rank, span.stream,
               span.stream == 0 ? "main stream" : fmt::format("stream {}", span.stream));
    }
  }

  void write(uint32_t rank, const Span &span) {
    auto kind = static_cast<Kind>(span.kind);
    // Skip records, and waits that took no time.
    if (kind == Kind::record || (kind == Kind::wait && span.end <= span.begin))
      return;
    separate();
    bool named = span.name < texts.size();
    appendTo(out,
             R"({{"ph":"X","pid":{},"tid":{},"ts":{:.4f},"dur":{:.4f},"cat":"{}","name":{},)"
             R"("args":{{"command":{},"kind":"{}","location":{},"bytes":{}}}}})",
             rank, span.stream, span.begin * 1e6, (span.end - span.begin) * 1e6,
             categoryName(span.category),
             named ? texts[span.name] : jsonText(sp::EnumNameCommandKind(kind)), span.command,
             sp::EnumNameCommandKind(kind), named ? locations[span.name] : "\"\"", span.bytes);
  }

  void write(const Flow &flow, uint64_t id) {
    const Span &from = timeline.ranks[flow.fromRank][flow.fromSpan];
    const Span &to = timeline.ranks[flow.toRank][flow.toSpan];
    // An arrow binds to the slice around its time: keep it inside the slice.
    auto inside = [](double time, const Span &span) {
      return std::clamp(time, span.begin, span.begin + (span.end - span.begin) * 0.999) * 1e6;
    };
    const char *what = static_cast<Kind>(to.kind) == Kind::wait_signal ? "signal" : "message";
    separate();
    appendTo(
        out,
        R"({{"ph":"s","id":{0},"pid":{1},"tid":{2},"ts":{3:.4f},"cat":"flow","name":"{4}"}},)"
        "\n"
        R"({{"ph":"f","bp":"e","id":{0},"pid":{5},"tid":{6},"ts":{7:.4f},"cat":"flow","name":"{4}"}})",
        id, flow.fromRank, from.stream, inside(flow.begin, from), what, flow.toRank, to.stream,
        inside(flow.end, to));
  }

  const Timeline &timeline;
  std::FILE *file;
  uint32_t ranks;
  std::string buffer;
  std::back_insert_iterator<std::string> out{buffer};
  std::vector<std::string> texts, locations;
  bool first = true, good = true;
};

} // namespace

static Status writeTo(const Timeline &timeline, const std::string &path, uint32_t maxRanks) {
  std::FILE *file = std::fopen(path.c_str(), "wb");
  auto failed = [&] {
    return Status(Code::Io, fmt::format("cannot write \"{}\": {}", path, std::strerror(errno)));
  };
  if (!file)
    return failed();
  auto ranks = static_cast<uint32_t>(std::min<size_t>(timeline.ranks.size(), maxRanks));
  bool good = Writer(timeline, file, ranks).run();
  good &= std::fclose(file) == 0;
  return good ? Status() : failed();
}

Status writeTrace(const Timeline &timeline, const std::string &path, uint32_t maxRanks) {
  return replaceFile(path,
                     [&](const std::string &part) { return writeTo(timeline, part, maxRanks); });
}

} // namespace tandem::timeline
