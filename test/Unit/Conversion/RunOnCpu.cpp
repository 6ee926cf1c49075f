//===- RunOnCpu.cpp - runs a compiled program in the test -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file of its own: it knows the runtime and nothing of MLIR.
//
//===----------------------------------------------------------------------===//

#include "RunOnCpu.h"

#include "tandem/Program/Program.h"
#include "tandem/Runtime/Context.h"
#include "tandem/Runtime/Local.h"

#include <chrono>
#include <memory>
#include <thread>

using namespace tandem;

static Layout denseLayout(const std::vector<int64_t> &shape) {
  return Layout::dense(DType::F32, shape.data(), static_cast<unsigned>(shape.size()));
}

static Status runRank(LocalWorld &world, const ProgramFile &file, uint32_t rank,
                      const std::vector<int64_t> &inputShape, std::vector<float> &input,
                      const std::vector<int64_t> &resultShape, float *result) {
  ContextOptions options;
  options.device = createCpuDevice();
  options.transports.push_back(world.transport(rank));
  options.bootstrap = world.bootstrap(rank);
  auto context = Context::create(std::move(options));
  if (!context.ok())
    return context.status();
  auto program = file.rankProgram(rank);
  if (!program.ok())
    return program.status();
  auto instance = Instance::create(**context, *program);
  if (!instance.ok())
    return instance.status();
  size_t bytes = sizeof(float);
  for (int64_t extent : resultShape)
    bytes *= extent;
  if (Status status = (*instance)->bind(0, {input.data(), denseLayout(inputShape)},
                                        input.size() * sizeof(float));
      !status.ok())
    return status;
  if (Status status = (*instance)->bind(1, {result, denseLayout(resultShape)}, bytes); !status.ok())
    return status;
  return (*instance)->run();
}

std::string test::runOnCpu(std::string_view program, const std::vector<int64_t> &inputShape,
                           std::vector<std::vector<float>> &inputs,
                           const std::vector<int64_t> &resultShape, std::vector<float> &results) {
  auto file = ProgramFile::fromMemory(program);
  if (!file.ok())
    return file.status().message();
  size_t elements = 1;
  for (int64_t extent : resultShape)
    elements *= extent;
  auto ranks = static_cast<uint32_t>(inputs.size());
  results.assign(ranks * elements, 0);
  auto world = LocalWorld::create(ranks, std::chrono::seconds(20));
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      Status status = runRank(*world, **file, r, inputShape, inputs[r], resultShape,
                              results.data() + r * elements);
      if (!status.ok())
        errors[r] = status.message();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &error : errors)
    if (!error.empty())
      return error;
  return "";
}
