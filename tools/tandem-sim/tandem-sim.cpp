//===- tandem-sim.cpp - what a run would take -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Files.h"

#include "tandem/Replay/Simulate.h"

#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

using namespace tandem;

namespace {

constexpr const char *kUsage = R"(usage: tandem-sim program.tsp --machine=FILE [options]

Simulates one run of a stream program on all its ranks, on a machine that need not be there.

  --machine=FILE      a machine file; a bare name (h200x8) is one of machines/
  --scale=NAME=FACTOR what if: multiplies a number of the machine; may be given several times.
                      NAME: {}
  --no-graph          commands are enqueued one by one, also where the machine replays graphs

Reports
  --json=FILE         everything as JSON (- = standard output, instead of the text)
  --trace=FILE        the run as a Chrome trace (Perfetto opens it)
  --svg=FILE          the run as a picture
  --trace-ranks=N     at most so many ranks in the trace; default 64
  --compare=FILE      a trace of tandem-run: where the model errs, by kind and by rank
)";

struct Options {
  std::string program, machine, json, trace, svg, compare;
  std::vector<std::pair<std::string, double>> scales;
  uint32_t traceRanks = 64;
  bool noGraph = false, help = false;
};

Status wrong(std::string message) { return Status(Code::InvalidArgument, std::move(message)); }

Status addScale(Options &options, const std::string &text) {
  size_t equals = text.find('=');
  char *end = nullptr;
  double factor = equals == std::string::npos ? 0 : std::strtod(text.c_str() + equals + 1, &end);
  if (equals == std::string::npos || end == text.c_str() + equals + 1 || *end)
    return wrong(fmt::format("--scale: expected name=factor, found \"{}\"", text));
  options.scales.emplace_back(text.substr(0, equals), factor);
  return Status();
}

Status addRanks(Options &options, const std::string &text) {
  char *end = nullptr;
  unsigned long value = std::strtoul(text.c_str(), &end, 10);
  if (text.empty() || text[0] == '-' || *end || value < 1 || value > 65536)
    return wrong(
        fmt::format("--trace-ranks: expected a number from 1 to 65536, found \"{}\"", text));
  options.traceRanks = static_cast<uint32_t>(value);
  return Status();
}

Expected<Options> parse(int argc, char **argv) {
  Options o;
  const std::map<std::string, std::string *> texts = {{"--machine", &o.machine},
                                                      {"--json", &o.json},
                                                      {"--trace", &o.trace},
                                                      {"--svg", &o.svg},
                                                      {"--compare", &o.compare}};
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      o.help = true;
      continue;
    }
    if (argument == "--no-graph") {
      o.noGraph = true;
      continue;
    }
    if (argument.empty() || argument[0] != '-') {
      if (!o.program.empty())
        return wrong(fmt::format("two programs given: \"{}\" and \"{}\"", o.program, argument));
      o.program = argument;
      continue;
    }
    size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals);
    auto text = texts.find(name);
    if (text == texts.end() && name != "--scale" && name != "--trace-ranks")
      return wrong(fmt::format("unknown option \"{}\"; --help lists them", argument));
    if (equals == std::string::npos && i + 1 == argc)
      return wrong(name + ": expected a value");
    std::string value = equals == std::string::npos ? argv[++i] : argument.substr(equals + 1);
    if (name == "--scale") {
      TANDEM_RETURN_IF_ERROR(addScale(o, value));
    } else if (name == "--trace-ranks") {
      TANDEM_RETURN_IF_ERROR(addRanks(o, value));
    } else {
      *text->second = value;
    }
  }
  if (!o.help && o.program.empty())
    return wrong("expected a program (.tsp); --help says more");
  if (!o.help && o.machine.empty())
    return wrong("expected --machine=FILE; --help says more");
  return o;
}

Status writeText(const std::string &path, const std::string &text) {
  if (path == "-") {
    fmt::print("{}", text);
    return Status();
  }
  return tandem::run::writeFile(path, text);
}

Status compareWith(const Options &options, const timeline::Timeline &simulated) {
  TANDEM_ASSIGN_OR_RETURN(timeline::Timeline measured, timeline::readTrace(options.compare));
  TANDEM_ASSIGN_OR_RETURN(simulate::Comparison comparison, simulate::compare(measured, simulated));
  fmt::print("\nsimulated beside {}\n{}", measured.origin, simulate::report(comparison));
  return Status();
}

Status simulateProgram(const Options &options) {
  TANDEM_ASSIGN_OR_RETURN(machine::Machine machine,
                          machine::Machine::load(machine::pathOf(options.machine)));
  std::string origin = "simulated on " + machine.name;
  for (const auto &[name, factor] : options.scales) {
    TANDEM_RETURN_IF_ERROR(machine.scale(name, factor).withPrefix("--scale: "));
    origin += fmt::format(", {} x {:g}", name, factor);
  }
  TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::open(options.program));
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<const replay::World> world, replay::World::load(*file));
  simulate::Options how;
  how.noGraph = options.noGraph;
  auto result = simulate::simulate(*world, machine, how);
  if (!result)
    return result.status().withPrefix(options.program + ": ");
  if (options.json != "-")
    fmt::print("{}", simulate::report(*world, machine, *result));
  if (!options.json.empty())
    TANDEM_RETURN_IF_ERROR(writeText(options.json, simulate::reportJson(*world, machine, *result)));
  if (options.trace.empty() && options.svg.empty() && options.compare.empty())
    return Status();
  // A picture chooses its ranks among all.
  bool all = !options.compare.empty() || !options.svg.empty();
  uint32_t ranks = all ? world->numRanks() : options.traceRanks;
  timeline::Timeline timeline = simulate::makeTimeline(*world, *result, origin, ranks);
  if (!options.trace.empty())
    TANDEM_RETURN_IF_ERROR(timeline::writeTrace(timeline, options.trace, options.traceRanks));
  if (!options.svg.empty())
    TANDEM_RETURN_IF_ERROR(timeline::writeSvg(timeline, options.svg));
  return options.compare.empty() ? Status() : compareWith(options, timeline);
}

} // namespace

int main(int argc, char **argv) {
  auto options = parse(argc, argv);
  if (options.ok() && options->help) {
    fmt::print(kUsage, fmt::join(machine::Machine::scalable(), ", "));
    return 0;
  }
  Status status = options.ok() ? simulateProgram(*options) : options.status();
  if (status.ok())
    return 0;
  fmt::print(stderr, "tandem-sim: {}\n", status.message());
  return 2;
}
