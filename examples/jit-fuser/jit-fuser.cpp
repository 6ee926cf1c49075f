//===- jit-fuser.cpp - trains a Llama block with the fuser ----------- -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs forward, backward and a few steps of gradient descent on all ranks, and compares:
//
//   - outputs and gradients with those of the same graph on one rank;
//   - outputs with plain loops, and some elements of each gradient with finite differences of them.
//
//===----------------------------------------------------------------------===//

#include "Fuser.h"
#include "Kernels.h"
#include "Llama.h"
#include "Ranks.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

using namespace fuser;

namespace {
const char *const kUsage = R"(usage: jit-fuser [OPTION...]

Trains Llama blocks on all ranks. Compares outputs, gradients and losses with those of one rank,
outputs with plain loops, and elements of each gradient with finite differences of these loops.

ranks:    --ranks=4  --processes (else threads)  --device=cpu  --channels=NAMES
model:    --tokens=16  --hidden=32  --heads=8  --feed=48  --blocks=2  --steps=3
fuser:    --group-ops=64  --group-bytes=268435456 (most per group)  --attention=call or op
compiler: --target=NAME  --machine=NAME (a machine file, such as h200x4)
)";

struct Options {
  uint32_t ranks = 4;
  bool processes = false;
  std::string device = "cpu", channels, target, machine, attention;
  Config config;
  Limits limits;
  int64_t steps = 3;
};

/// Numbers in [-1, 1) that depend on the seed alone.
std::vector<float> random(int64_t count, uint64_t seed) {
  std::vector<float> numbers;
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    numbers.push_back(static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1);
  }
  return numbers;
}

struct Model {
  std::vector<Parameter> parameters; ///< of all blocks
  std::vector<float> x;
  std::vector<std::vector<float>> weights;

  explicit Model(const Config &config) : x(random(config.tokens * config.hidden, 1)) {
    for (int64_t block = 0; block < config.blocks; ++block)
      for (const Parameter &one : parametersOf(config))
        parameters.push_back(one);
    for (const Parameter &one : parameters) {
      int64_t count = 1;
      for (int64_t extent : one.shape)
        count *= extent;
      weights.push_back(random(count, 100 + weights.size()));
      double scale = one.shape.size() == 1 ? 0.2 : 1 / std::sqrt(static_cast<double>(one.shape[0]));
      for (float &number : weights.back())
        number = static_cast<float>(number * scale + (one.shape.size() == 1 ? 1 : 0));
    }
  }
};

/// What a rank has computed.
struct Result {
  std::vector<float> y;
  std::vector<std::vector<float>> gradients; ///< of the parameters, then of x
  std::vector<float> losses;                 ///< one per step
  Statistics first, all;                     ///< of the first step, of all steps
};

Result train(Fuser &f, const Options &options, const Model &model) {
  Result result;
  Tensor x = f.input(model.x, {options.config.tokens, options.config.hidden}, 0);
  std::vector<Tensor> weights;
  for (size_t i = 0; i < model.weights.size(); ++i)
    weights.push_back(
        f.input(model.weights[i], model.parameters[i].shape, model.parameters[i].split));
  for (int64_t step = 0; step < options.steps; ++step) {
    Tensor y = forward(f, options.config, x, weights);
    Tensor loss = lossOf(f, y);
    std::vector<Tensor> all = weights;
    all.push_back(x);
    std::vector<Tensor> grads = gradients(f, loss, all);
    std::vector<Tensor> next;
    for (size_t i = 0; i < weights.size(); ++i)
      next.push_back(f.map("sub", {weights[i], f.map("mul", grads[i], 0.02)}));
    // Nothing has run yet. What the host reads is computed with the rest.
    std::vector<Tensor> wanted = next;
    wanted.push_back(loss);
    if (step == 0) {
      wanted.push_back(y);
      wanted.insert(wanted.end(), grads.begin(), grads.end());
    }
    f.evaluate(wanted);
    result.losses.push_back(f.read(loss)[0]);
    if (step == 0) {
      result.y = f.read(y);
      for (const Tensor &grad : grads)
        result.gradients.push_back(f.read(grad));
    }
    if (step == 1)
      result.first = f.statistics();
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] = f.detach(next[i]);
  }
  result.all = f.statistics();
  return result;
}

double distance(const std::vector<float> &found, const std::vector<float> &expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / norm);
}

void expectBelow(double error, double limit, const std::string &what) {
  if (!(error <= limit)) // also a NaN
    throw std::runtime_error(what + ": the relative error is " + std::to_string(error) +
                             ", expected at most " + std::to_string(limit));
}

std::string nameOf(const Model &model, size_t i) {
  return i < model.parameters.size() ? "gradient of " + std::string(model.parameters[i].name) +
                                           " (" + std::to_string(i) + ")"
                                     : "gradient of x";
}

void compareWithOneRank(const Result &found, const Result &expected, const Model &model) {
  expectBelow(distance(found.y, expected.y), 1e-5, "y");
  for (size_t i = 0; i < found.gradients.size(); ++i)
    expectBelow(distance(found.gradients[i], expected.gradients[i]), 1e-5, nameOf(model, i));
  for (size_t i = 0; i < found.losses.size(); ++i)
    expectBelow(std::fabs(found.losses[i] - expected.losses[i]) / expected.losses[i], 1e-5, "loss");
}

void compareWithLoops(const Result &found, const Config &config, const Model &model) {
  std::vector<std::vector<double>> values;
  for (const std::vector<float> &weight : model.weights)
    values.emplace_back(weight.begin(), weight.end());
  values.emplace_back(model.x.begin(), model.x.end());
  auto run = [&] {
    std::vector<std::vector<double>> weights(values.begin(), values.end() - 1);
    return referenceForward(config, values.back(), weights);
  };
  std::vector<double> y = run();
  expectBelow(distance(found.y, {y.begin(), y.end()}), 1e-5, "y against plain loops");
  expectBelow(std::fabs(found.losses[0] / referenceLoss(config, y) - 1), 1e-5,
              "loss against plain loops");
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<float> some, expected;
    for (size_t e = i % 3; e < values[i].size(); e += values[i].size() / 5 + 1) {
      double old = values[i][e], at[2];
      for (int side : {0, 1}) {
        values[i][e] = old + (side ? 1e-5 : -1e-5);
        at[side] = referenceLoss(config, run());
      }
      values[i][e] = old;
      some.push_back(found.gradients[i][e]);
      expected.push_back(static_cast<float>((at[1] - at[0]) / 2e-5));
    }
    expectBelow(distance(some, expected), 1e-4, nameOf(model, i) + " against finite differences");
  }
}

void runRank(const Options &options, const Model &model, ProgramCache &programs, uint32_t rank,
             tandem_context_options context) {
  context.device = options.device.c_str();
  context.channels = options.channels.c_str();
  Fuser f(context, rank, options.ranks, programs, options.limits, options.attention == "call");
  Result result = train(f, options, model);
  if (result.all.instances != result.first.instances)
    throw std::runtime_error("expected that steps after the second compile nothing");
  if (!(result.losses.back() < result.losses.front()))
    throw std::runtime_error("expected that the loss becomes smaller");
  if (rank != 0)
    return;
  tandem_context_options alone = {};
  alone.struct_size = sizeof alone;
  alone.device = options.device.c_str();
  ProgramCache own(options.target, options.machine);
  Fuser single(alone, 0, 1, own, options.limits, options.attention == "call");
  compareWithOneRank(result, train(single, options, model), model);
  compareWithLoops(result, options.config, model);
  std::printf("%lld steps: %zu groups of %zu ops in all, %zu programs; loss %.4f to %.4f\n"
              "results agree with one rank, plain loops and finite differences\n",
              static_cast<long long>(options.steps), result.all.groups, result.all.ops,
              result.all.instances, static_cast<double>(result.losses.front()),
              static_cast<double>(result.losses.back()));
}

Options parse(int argc, char **argv) {
  Options options;
  int64_t ranks = options.ranks, ops = static_cast<int64_t>(options.limits.ops);
  std::pair<const char *, int64_t *> numbers[] = {{"--ranks=", &ranks},
                                                  {"--steps=", &options.steps},
                                                  {"--tokens=", &options.config.tokens},
                                                  {"--hidden=", &options.config.hidden},
                                                  {"--heads=", &options.config.heads},
                                                  {"--feed=", &options.config.feed},
                                                  {"--blocks=", &options.config.blocks},
                                                  {"--group-ops=", &ops},
                                                  {"--group-bytes=", &options.limits.bytes}};
  std::pair<const char *, std::string *> words[] = {{"--device=", &options.device},
                                                    {"--channels=", &options.channels},
                                                    {"--target=", &options.target},
                                                    {"--machine=", &options.machine},
                                                    {"--attention=", &options.attention}};
  for (int i = 1; i < argc; ++i) {
    bool isKnown = std::strcmp(argv[i], "--processes") == 0;
    options.processes |= isKnown;
    for (auto &[name, value] : numbers)
      if (std::strncmp(argv[i], name, std::strlen(name)) == 0) {
        char *end = nullptr;
        *value = std::strtoll(argv[i] + std::strlen(name), &end, 10);
        isKnown = *value > 0 && *end == 0;
      }
    for (auto &[name, value] : words)
      if (std::strncmp(argv[i], name, std::strlen(name)) == 0) {
        *value = argv[i] + std::strlen(name);
        isKnown = true;
      }
    if (!isKnown)
      throw std::invalid_argument(std::string("unknown option or no positive number: ") + argv[i]);
  }
  options.ranks = static_cast<uint32_t>(ranks);
  options.limits.ops = static_cast<size_t>(ops);
  const Config &c = options.config;
  if (c.tokens % ranks || c.heads % ranks || c.feed % ranks || c.hidden % (2 * c.heads) ||
      options.steps < 3)
    throw std::invalid_argument(
        "expected tokens, heads and feed that the ranks divide, hidden that "
        "2 * heads divide, and 3 steps or more");
  bool isGpu = options.device.rfind("cuda", 0) == 0;
  if (options.channels.empty())
    options.channels = isGpu ? "ccl" : options.processes ? "ucx" : "local";
  if (options.attention.empty())
    options.attention = isGpu && !haveGpuKernels() ? "op" : "call";
  if (options.attention != "op" && options.attention != "call")
    throw std::invalid_argument("expected --attention=op or call, found " + options.attention);
  bool isPeer = options.channels.find("peer") != std::string::npos;
  if (options.target.empty())
    options.target = isGpu ? (isPeer ? "cuda-peer" : "cuda-nccl") : "cpu-" + options.channels;
  return options;
}
} // namespace

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i)
    if (std::strcmp(argv[i], "--help") == 0) {
      std::fputs(kUsage, stdout);
      return 0;
    }
  try {
    Options options = parse(argc, argv);
    Model model(options.config);
    ProgramCache programs(options.target, options.machine);
    bool ok = runRanks(options.ranks, options.processes,
                       [&](uint32_t rank, const tandem_context_options &context) {
                         runRank(options, model, programs, rank, context);
                       });
    return ok ? 0 : 1;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "jit-fuser: %s\n", error.what());
    return 2;
  }
}
