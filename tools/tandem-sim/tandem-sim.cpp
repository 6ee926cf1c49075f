//===- tandem-sim.cpp - what a run would take -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"
#include "Files.h"
#include "ToolMain.h"

#include "tandem/Replay/Simulate.h"

#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <map>

using namespace tandem;

namespace {

struct Options {
  std::string program, machine, json, trace, svg, compare;
  std::vector<std::string> with; ///< traces of other runs, for the drawing
  std::vector<std::pair<std::string, double>> scales;
  uint32_t traceRanks = 64;
  bool noGraph = false;
};

Status wrong(std::string message) { return Status(Code::InvalidArgument, std::move(message)); }

Status addScale(Options &options, const std::string &text) {
  size_t equals = text.find('=');
  char *end = nullptr;
  double factor = equals == std::string::npos ? 0 : std::strtod(text.c_str() + equals + 1, &end);
  if (equals == std::string::npos || end == text.c_str() + equals + 1 || *end)
    return wrong(fmt::format("expected name=factor, found \"{}\"", text));
  options.scales.emplace_back(text.substr(0, equals), factor);
  return Status();
}

/// Parses the options; returns the text of --help, if requested.
Expected<std::string> parse(int argc, char **argv, Options &o) {
  run::CommandLine line("tandem-sim", "Simulates one run of a stream program on all ranks of a "
                                      "machine described by a machine file.");
  line.add_option("program", o.program, "a stream program")->type_name("program.tsp");
  line.text("--machine", o.machine, "FILE",
            "a machine file; a bare name (h200x8) is one of machines/");
  std::string scalable = fmt::format("{}", fmt::join(machine::Machine::scalable(), ",\n  "));
  line.add_option_function<std::vector<std::string>>(
          "--scale",
          [&o](const std::vector<std::string> &all) {
            for (const std::string &text : all)
              if (Status status = addScale(o, text); !status.ok())
                throw CLI::ValidationError("--scale", status.message());
          },
          "multiply a number of the machine file; repeatable.\nNAME: " + scalable)
      ->type_name("NAME=FACTOR")
      ->allow_extra_args(false);
  line.add_flag("--no-graph", o.noGraph,
                "enqueue commands one by one even if the machine replays graphs");
  line.text("--json", o.json, "FILE",
            "all results as JSON (-: on standard output, instead of the text)")
      ->group("Reports");
  line.text("--trace", o.trace, "FILE", "the run as a Chrome trace (for Perfetto)")
      ->group("Reports");
  line.text("--svg", o.svg, "FILE", "a drawing of the run and those of --with on one time axis")
      ->group("Reports");
  line.list("--with", o.with, "FILE",
            "for --svg: traces of tandem-run or tandem-sim, which come first; repeatable.\n"
            "A drawing of traces alone has no program and no option but --svg")
      ->group("Reports");
  line.number("--trace-ranks", o.traceRanks, 1, 65536, "N",
              "at most N ranks in the trace; default 64")
      ->group("Reports");
  line.text("--compare", o.compare, "FILE",
            "report the model's errors against a trace of tandem-run, by kind and by rank")
      ->group("Reports");
  TANDEM_ASSIGN_OR_RETURN(std::string text, line.parse({argv + 1, argv + argc}));
  if (text.empty() && !o.with.empty() && o.svg.empty())
    return wrong("--with: expected --svg=FILE");
  if (text.empty() && !o.with.empty() && o.program.empty()) {
    std::vector<CLI::Option *> ofProgram = line.get_options([](const CLI::Option *option) {
      return option->get_name() != "--with" && option->get_name() != "--svg";
    });
    TANDEM_RETURN_IF_ERROR(
        run::refuseOptions(ofProgram, "a drawing of traces alone has no program to simulate"));
    return text;
  }
  if (text.empty() && o.program.empty())
    return wrong("expected a program (.tsp); --help says more");
  if (text.empty() && o.machine.empty())
    return wrong("expected --machine=FILE; --help says more");
  return text;
}

Status writeText(const std::string &path, const std::string &text) {
  if (path == "-") {
    run::print("{}", text);
    return Status();
  }
  return tandem::run::writeFile(path, text);
}

Status compareWith(const Options &options, const timeline::Timeline &simulated) {
  TANDEM_ASSIGN_OR_RETURN(timeline::Timeline measured, timeline::readTrace(options.compare));
  TANDEM_ASSIGN_OR_RETURN(simulate::Comparison comparison, simulate::compare(measured, simulated));
  run::print("\nsimulated beside {}\n{}", measured.origin, simulate::report(comparison));
  return Status();
}

/// Runs that look the same in the drawing are labelled by their files: "@layer (push.json)".
void nameApart(std::vector<timeline::Timeline> &runs, const std::vector<std::string> &files) {
  std::map<std::pair<std::string, std::string>, unsigned> alike;
  for (const timeline::Timeline &run : runs)
    ++alike[{run.program, run.origin}];
  for (size_t i = 0; i < runs.size(); ++i)
    if (alike[{runs[i].program, runs[i].origin}] > 1)
      runs[i].program += fmt::format(" ({})", files[i]);
}

/// The traces of --with, then `own`.
Status drawRuns(const Options &options, std::vector<timeline::Timeline> own) {
  std::vector<timeline::Timeline> runs;
  for (const std::string &path : options.with) {
    TANDEM_ASSIGN_OR_RETURN(timeline::Timeline run, timeline::readTrace(path));
    runs.push_back(std::move(run));
  }
  std::move(own.begin(), own.end(), std::back_inserter(runs));
  std::vector<std::string> files = options.with;
  files.push_back(options.program);
  nameApart(runs, files);
  return run::writeFile(options.svg, timeline::svg(runs));
}

Status simulateProgram(const Options &options) {
  for (const std::string *path : {&options.json, &options.trace, &options.svg})
    if (!path->empty() && *path != "-")
      TANDEM_RETURN_IF_ERROR(run::checkWritable(*path));
  if (options.program.empty())
    return drawRuns(options, {});
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
    run::print("{}", simulate::report(*world, machine, *result));
  if (!options.json.empty())
    TANDEM_RETURN_IF_ERROR(writeText(options.json, simulate::reportJson(*world, machine, *result)));
  if (options.trace.empty() && options.svg.empty() && options.compare.empty())
    return Status();
  // A picture chooses its ranks among all.
  bool all = !options.compare.empty() || !options.svg.empty();
  uint32_t ranks = all ? world->numRanks() : options.traceRanks;
  timeline::Timeline timeline = simulate::makeTimeline(*world, *result, origin, ranks);
  if (!options.trace.empty())
    TANDEM_RETURN_IF_ERROR(run::replaceFile(options.trace, [&](const std::string &path) {
      return timeline::writeTrace(timeline, path, options.traceRanks);
    }));
  if (!options.svg.empty())
    TANDEM_RETURN_IF_ERROR(drawRuns(options, {timeline}));
  return options.compare.empty() ? Status() : compareWith(options, timeline);
}

} // namespace

int main(int argc, char **argv) {
  return run::runTool("tandem-sim", 2, [&] {
    Options options;
    auto text = parse(argc, argv, options);
    Status status = text.status();
    if (status.ok()) {
      run::print("{}", *text);
      status = text->empty() ? simulateProgram(options) : Status();
    }
    if (status.ok())
      return 0;
    run::print(stderr, "tandem-sim: {}\n", status.message());
    return 2;
  });
}
