//===- CReports.cpp - reports about programs in the C API -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Compiler.h"

#include "LoopsJson.h"
#include "tandem/Program/CStruct.h"
#include "tandem/Program/Printable.h"
#include "tandem/Program/Program.h"
#include "tandem/Replay/Check.h"
#include "tandem/Replay/Machine.h"
#include "tandem/Replay/Simulate.h"
#include "tandem/Replay/Timeline.h"
#include "tandem/Replay/World.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

using namespace tandem;
using nlohmann::json;

struct tandem_report {
  bool ok = false;
  std::string text;
  std::optional<std::string> json, svg;
};

static_assert(TANDEM_NO_PADDING_AFTER(tandem_check_options, threads) &&
              TANDEM_NO_PADDING_AFTER(tandem_simulate_options, reserved));

namespace {

Expected<std::shared_ptr<const ProgramFile>> open(const void *bytes, size_t size) {
  if (!bytes)
    return Status(Code::InvalidArgument, "bytes: null pointer");
  return ProgramFile::fromMemory({static_cast<const char *>(bytes), size});
}

/// NULL options are the defaults.
template <typename T> Expected<T> known(const T *options, const char *name) {
  T result{};
  if (options)
    TANDEM_RETURN_IF_ERROR(readStruct(options, name, result));
  return result;
}

std::string toJson(const Certificate &certificate) {
  json out = {{"producer", certificate.producer},
              {"properties", certificate.properties},
              {"limits", certificate.limits},
              {"data", certificate.data},
              {"machine", certificate.machine},
              {"seconds", certificate.seconds},
              {"baseline_seconds", certificate.baselineSeconds},
              {"loops", compiler::loopsJson(certificate.loops)}};
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Status explainProgram(const void *bytes, size_t size, tandem_report &report) {
  TANDEM_ASSIGN_OR_RETURN(auto file, open(bytes, size));
  const Certificate *certificate = file->certificate();
  if (!certificate)
    return Status(Code::Unsupported, std::string(file->name()) +
                                         ": has no certificate of its content: compile it with "
                                         "certify");
  report.text = toText(*certificate);
  if (certificate->loops.empty())
    report.text += "  no op communicates\n";
  report.json = toJson(*certificate);
  return Status();
}

Status checkProgram(const void *bytes, size_t size, const tandem_check_options *given,
                    tandem_report &report) {
  TANDEM_ASSIGN_OR_RETURN(tandem_check_options options, known(given, "tandem_check_options"));
  TANDEM_ASSIGN_OR_RETURN(auto file, open(bytes, size));
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<const replay::World> world, replay::World::load(*file));
  check::CheckOptions how;
  how.queues = check::defaultQueues(world->target);
  how.lint = options.lint != 0;
  how.threads = options.threads;
  check::Report found = check::check(*world, how);
  report.text = check::toText(*world, found);
  report.json = check::toJson(*world, found);
  return Status();
}

Status simulateProgram(const void *bytes, size_t size, const tandem_simulate_options *given,
                       tandem_report &report) {
  TANDEM_ASSIGN_OR_RETURN(tandem_simulate_options options, known(given, "tandem_simulate_options"));
  if (!options.machine)
    return Status(Code::InvalidArgument, "expected a machine file");
  TANDEM_ASSIGN_OR_RETURN(machine::Machine machine,
                          machine::Machine::load(machine::pathOf(options.machine)));
  TANDEM_ASSIGN_OR_RETURN(auto file, open(bytes, size));
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<const replay::World> world, replay::World::load(*file));
  simulate::Options how;
  how.noGraph = options.no_graph != 0;
  TANDEM_ASSIGN_OR_RETURN(simulate::Result result, simulate::simulate(*world, machine, how));
  report.text = simulate::report(*world, machine, result);
  report.json = simulate::reportJson(*world, machine, result);
  report.svg = timeline::svg(
      {simulate::makeTimeline(*world, result, "simulated on " + machine.name, world->numRanks())});
  return Status();
}

template <typename Make> tandem_report *make(Make &&fill) {
  auto *report = new (std::nothrow) tandem_report;
  if (!report)
    return nullptr;
  Status status = fill(*report);
  report->ok = status.ok();
  if (!status.ok())
    report->text = escapeControls(status.message());
  return report;
}

} // namespace

tandem_report *tandem_explain_program(const void *bytes, size_t size) {
  return make([&](tandem_report &report) { return explainProgram(bytes, size, report); });
}

tandem_report *tandem_check_program(const void *bytes, size_t size,
                                    const tandem_check_options *options) {
  return make([&](tandem_report &report) { return checkProgram(bytes, size, options, report); });
}

tandem_report *tandem_simulate_program(const void *bytes, size_t size,
                                       const tandem_simulate_options *options) {
  return make([&](tandem_report &report) { return simulateProgram(bytes, size, options, report); });
}

size_t tandem_choose_program(const void *const *bytes, const size_t *sizes, size_t num,
                             const char *name) {
  auto machine = name ? machine::Machine::load(machine::pathOf(name))
                      : Status(Code::InvalidArgument, "no machine file");
  std::vector<double> seconds;
  for (size_t i = 0; machine && i < num; ++i) {
    auto file = open(bytes[i], sizes[i]);
    const Certificate *certificate = file ? (*file)->certificate() : nullptr;
    if (!certificate || certificate->seconds <= 0)
      return 0;
    seconds.push_back(certificate->seconds);
  }
  return machine ? machine->choose(seconds) : 0;
}

const char *tandem_find_machine(const char *gpu, uint32_t ranks, char *name, size_t size) {
  std::string found = machine::findForGpu(gpu, ranks);
  if (size > 0)
    name[found.size() < size ? found.copy(name, size - 1) : 0] = 0;
  return name;
}

int tandem_report_ok(const tandem_report *report) { return report && report->ok; }

const char *tandem_report_get(const tandem_report *report, tandem_report_form form) {
  if (!report)
    return nullptr;
  switch (static_cast<int>(form)) {
  case TANDEM_REPORT_TEXT:
    return report->text.c_str();
  case TANDEM_REPORT_JSON:
    return report->json ? report->json->c_str() : nullptr;
  case TANDEM_REPORT_SVG:
    return report->svg ? report->svg->c_str() : nullptr;
  default:
    return nullptr;
  }
}

void tandem_report_destroy(tandem_report *report) { delete report; }
