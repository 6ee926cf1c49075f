//===- Options.cpp - the command line of tandem-run -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include <charconv>
#include <fmt/format.h>
#include <functional>
#include <map>

using namespace tandem;
using namespace tandem::run;

const char *const run::kUsage =
    R"(usage: tandem-run program.tsp|program.mlir [options]

Runs a stream program on all its ranks with seeded random inputs.

Ranks
  -n N                start N ranks here. Without it the ranks come from mpirun, srun or torchrun
                      (see Environment.h), and where there is none of them the program says how many
  --device=cpu|null|cuda
                      default cpu; null does nothing and measures dispatch; cuda: a rank uses the
                      GPU of its number on its node, modulo those there are
  --channel=ucx|local|ccl|peer[,...]
                      default ucx: one process a rank; local: ranks are threads of one process; ccl,
                      peer: GPUs, one process a rank, or with --threads one thread. Of several, each
                      channel of the program gets the first that can do what it needs
  --threads           with ccl or peer: ranks are threads of one process
  --no-graph          cuda: every command is launched by itself; default: a graph replays the run
                      where everything in it can be captured
  --timeout=SECONDS   ends a run that makes no progress; default 60
  --prefix            puts "[rank] " before each line that a rank prints

Compilation (program.mlir)
  --entry=NAME        function; default: the only one
  --mesh=x=4[,y=2]    sizes of mesh axes; an axis of unknown size gets N
  --shape=arg0=8x16   extents of an argument; may be given several times
  --target=NAME       default cpu-CHANNEL; cuda-nccl with ccl

Runs
  --verify            compare with the oracle of the file; exit 0 only if it agrees
  --repeat=K          timed runs; default 1
  --warmup=K          runs before them; default 0
  --seed=S            of the inputs; default 0

Reports
  --per-rank          one line a rank
  --json=FILE         times, errors, bytes moved, commands
  --trace=FILE        one more run, measured, as a Chrome trace (Perfetto opens it; tandem-sim compares)
  --svg=FILE          the same as a picture
  --dump-npy=DIR      logical inputs and outputs as .npy and their list as index.json (bf16 as uint16)
)";

bool Options::isSource() const {
  return program.size() > 5 && program.compare(program.size() - 5, 5, ".mlir") == 0;
}

namespace {

template <typename T>
Status number(const std::string &option, const std::string &text, T &result, uint64_t least,
              uint64_t most) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return Status(Code::InvalidArgument,
                  fmt::format("{}: expected a number from {} to {}, found \"{}\"", option, least,
                              most, text));
  result = static_cast<T>(value);
  return Status::success();
}

Status seconds(const std::string &option, const std::string &text,
               std::chrono::milliseconds &result) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !(value >= 0.1 && value <= 86400))
    return Status(
        Code::InvalidArgument,
        fmt::format("{}: expected seconds from 0.1 to 86400, found \"{}\"", option, text));
  result = std::chrono::milliseconds(static_cast<int64_t>(value * 1000));
  return Status::success();
}

Status oneOf(const std::string &option, const std::string &text, std::string &result,
             std::initializer_list<const char *> choices) {
  std::string all;
  for (const char *choice : choices) {
    if (text == choice) {
      result = text;
      return Status::success();
    }
    all += (all.empty() ? "" : ", ") + std::string(choice);
  }
  return Status(Code::InvalidArgument,
                fmt::format("{}: expected one of {}, found \"{}\"", option, all, text));
}

void split(const std::string &text, std::vector<std::string> &parts) {
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

Status channels(const std::string &option, const std::string &text, std::string &result) {
  std::vector<std::string> names;
  split(text, names);
  for (std::string &name : names)
    TANDEM_RETURN_IF_ERROR(oneOf(option, name, name, {"ucx", "local", "ccl", "peer"}));
  result = text;
  return Status::success();
}

bool names(const std::string &channels, const std::string &channel) {
  return ("," + channels + ",").find("," + channel + ",") != std::string::npos;
}

} // namespace

Expected<Options> run::parseOptions(const std::vector<std::string> &arguments) {
  Options o;
  using Apply = std::function<Status(const std::string &option, const std::string &value)>;
  auto text = [](std::string &field) -> Apply {
    return [&field](auto &option, auto &value) {
      field = value;
      return value.empty() ? Status(Code::InvalidArgument, option + ": expected a value")
                           : Status::success();
    };
  };
  const std::map<std::string, bool *> flags = {
      {"--verify", &o.verify},   {"--per-rank", &o.perRank}, {"--prefix", &o.prefix},
      {"--version", &o.version}, {"--help", &o.help},        {"-h", &o.help},
      {"--threads", &o.threads}, {"--no-graph", &o.noGraph}};
  const std::map<std::string, Apply> values = {
      {"-n", [&](auto &k, auto &v) { return number(k, v, o.ranks, 1, 65536); }},
      {"--entry", text(o.entry)},
      {"--target", text(o.target)},
      {"--json", text(o.json)},
      {"--dump-npy", text(o.dumpNpy)},
      {"--trace", text(o.trace)},
      {"--svg", text(o.svg)},
      {"--mesh", [&](auto &, auto &v) { return split(v, o.mesh), Status::success(); }},
      {"--shape", [&](auto &, auto &v) { return split(v, o.shapes), Status::success(); }},
      {"--device",
       [&](auto &k, auto &v) { return oneOf(k, v, o.device, {"cpu", "null", "cuda"}); }},
      {"--channel", [&](auto &k, auto &v) { return channels(k, v, o.channel); }},
      {"--timeout", [&](auto &k, auto &v) { return seconds(k, v, o.timeout); }},
      {"--repeat", [&](auto &k, auto &v) { return number(k, v, o.repeat, 1, 100000000); }},
      {"--warmup", [&](auto &k, auto &v) { return number(k, v, o.warmup, 0, 100000000); }},
      {"--seed", [&](auto &k, auto &v) { return number(k, v, o.seed, 0, ~uint64_t(0)); }},
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &argument = arguments[i];
    if (argument.size() < 2 || argument[0] != '-') {
      if (!o.program.empty())
        return Status(Code::InvalidArgument,
                      fmt::format("two programs given: \"{}\" and \"{}\"", o.program, argument));
      o.program = argument;
      continue;
    }
    if (auto flag = flags.find(argument); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    size_t equals = argument.compare(0, 2, "--") ? std::string::npos : argument.find('=');
    std::string option = argument.substr(0, equals);
    auto value = values.find(option);
    if (value == values.end())
      return Status(Code::InvalidArgument,
                    fmt::format("unknown option \"{}\"; --help lists them", argument));
    if (equals == std::string::npos && ++i == arguments.size())
      return Status(Code::InvalidArgument, option + ": expected a value");
    TANDEM_RETURN_IF_ERROR(value->second(
        option, equals == std::string::npos ? arguments[i] : argument.substr(equals + 1)));
  }
  if (o.program.empty() && !o.help && !o.version)
    return Status(Code::InvalidArgument, "expected a program (.tsp or .mlir); --help says more");
  if (!o.isSource() && !o.help && !o.version)
    for (auto [option, given] : {std::pair("--entry", !o.entry.empty()),
                                 {"--mesh", !o.mesh.empty()},
                                 {"--shape", !o.shapes.empty()},
                                 {"--target", !o.target.empty()}})
      if (given)
        return Status(Code::InvalidArgument,
                      fmt::format("{}: only for a program that is still to be compiled (.mlir), "
                                  "found \"{}\"",
                                  option, o.program));
  if (names(o.channel, "local"))
    o.threads = true;
  if (o.threads && names(o.channel, "ucx"))
    return Status(Code::InvalidArgument, "--threads: ranks of channel ucx are processes");
  if (o.verify && o.device == "null")
    return Status(Code::InvalidArgument, "--verify: device null computes nothing");
  if ((!o.trace.empty() || !o.svg.empty()) && o.device == "null")
    return Status(Code::InvalidArgument, "--trace, --svg: device null runs nothing");
  return o;
}
