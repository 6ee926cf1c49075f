//===- Runner.cpp - a scenario on threads or processes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Runner.h"

#include "tandem/Runtime/Context.h"
#include "tandem/Runtime/Local.h"
#include "tandem/Runtime/Registry.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace tandem::test {

namespace {

Status runAll(Instance &instance, const Scenario &scenario, uint32_t rank, RankResult &result) {
  const Program &program = instance.program();
  size_t count = program.arguments().size();
  std::vector<std::vector<uint64_t>> memory(count); // aligned for any dtype
  for (uint32_t i = 0; i < count; ++i) {
    const ArgumentInfo &info = program.arguments()[i];
    if (!info.present)
      continue;
    memory[i].resize(info.localBytes() / 8 + 1);
    Layout layout = Layout::dense(info.dtype, info.localShape.data(),
                                  static_cast<unsigned>(info.localShape.size()));
    TANDEM_RETURN_IF_ERROR(instance.bind(i, {memory[i].data(), layout}, info.localBytes()));
  }
  auto fill = [&](unsigned run) {
    const auto &set = scenario.data[run % scenario.data.size()][rank];
    for (uint32_t i = 0; i < count; ++i)
      if (program.arguments()[i].isResult)
        std::memset(memory[i].data(), kPoison, memory[i].size() * 8);
      else if (!set[i].empty())
        std::memcpy(memory[i].data(), set[i].data(), set[i].size());
  };
  auto collect = [&] {
    std::vector<Bytes> outputs(count);
    for (uint32_t i = 0; i < count; ++i)
      if (program.arguments()[i].isResult && program.arguments()[i].present)
        outputs[i].assign(reinterpret_cast<const char *>(memory[i].data()),
                          program.arguments()[i].localBytes());
    result.outputs.push_back(std::move(outputs));
  };
  if (scenario.pipelined) {
    fill(0);
    for (unsigned run = 0; run < scenario.runs; ++run)
      TANDEM_RETURN_IF_ERROR(instance.enqueue());
    TANDEM_RETURN_IF_ERROR(instance.wait());
    collect();
    return Status();
  }
  for (unsigned run = 0; run < scenario.runs; ++run) {
    fill(run);
    TANDEM_RETURN_IF_ERROR(instance.run());
    collect();
  }
  return Status();
}

Status runOn(Context &context, const ProgramFile &file, const Scenario &scenario,
             RankResult &result) {
  uint32_t rank = context.rank();
  auto has = [&](const std::vector<uint32_t> &list) {
    return std::find(list.begin(), list.end(), rank) != list.end();
  };
  TANDEM_ASSIGN_OR_RETURN(auto program, file.rankProgram(rank));
  TANDEM_ASSIGN_OR_RETURN(auto instance, Instance::create(context, program));
  if (has(scenario.leavers))
    return Status(Code::Aborted, "left on purpose");
  if (has(scenario.stallers)) {
    std::this_thread::sleep_for(scenario.timeout * 3);
    return Status(Code::Aborted, "stalled on purpose");
  }
  return runAll(*instance, scenario, rank, result);
}

} // namespace

RankResult runRank(const Backend &backend, const Scenario &scenario, const std::string &file,
                   std::unique_ptr<Launch> launch, std::unique_ptr<Transport> transport) {
  RankResult result;
  result.status = [&]() -> Status {
    ContextOptions options;
    TANDEM_ASSIGN_OR_RETURN(options.device, createDevice(backend.device));
    options.launch = std::move(launch);
    if (transport)
      options.transports.push_back(std::move(transport));
    options.timeout = scenario.timeout;
    TANDEM_ASSIGN_OR_RETURN(auto opened, ProgramFile::fromMemory(file));
    TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
    return runOn(*context, *opened, scenario, result);
  }();
  return result;
}

std::vector<RankResult> runScenario(const Backend &backend, const Scenario &scenario) {
  if (backend.processes)
    return runProcesses(backend, scenario);
  auto size = static_cast<uint32_t>(scenario.spec.ranks.size());
  std::string file = scenario.spec.encode();
  auto world = LocalWorld::create(size, std::chrono::seconds(20));
  std::vector<RankResult> results(size);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      results[r] = runRank(backend, scenario, file, world->launch(r), world->transport(r));
    });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

std::vector<Backend> backends() {
  std::vector<Backend> all;
  all.push_back({"CpuLocal", "cpu", "local", false, TwoSided | OneSided | Collectives, ""});
  Backend ucx{"CpuUcx", "cpu", "ucx", true, TwoSided | OneSided, ""};
  ucx.unavailable = probeTransport("ucx");
  all.push_back(ucx);
  return all;
}

} // namespace tandem::test
