//===- Candidate.cpp - a program in one way of launching --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Candidate.h"

#include "Clock.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <future>
#include <utility>

using namespace tandem;
using namespace tandem::bench;
using namespace tandem::run;

/// Between two meetings of ranks that wait for the oracle; timeouts are longer.
static constexpr std::chrono::milliseconds kPatience(50);

Status Candidate::load(const Setup &setup) {
  context = &setup.context;
  rank = setup.bootstrap.rank();
  TANDEM_ASSIGN_OR_RETURN(file, ProgramFile::fromMemory(variant.bytes));
  if (file->numRanks() != setup.bootstrap.worldSize())
    return Status(Code::InvalidArgument,
                  fmt::format("the program is for {} ranks, there are {}", file->numRanks(),
                              setup.bootstrap.worldSize()));
  TANDEM_ASSIGN_OR_RETURN(program, file->rankProgram(rank));
  return Status();
}

Status Candidate::allocate(const Setup &setup) {
  TANDEM_ASSIGN_OR_RETURN(placements, gatherPlacements(*program, setup.bootstrap));
  const auto &arguments = program->arguments();
  bindings.resize(setup.sets);
  results.resize(arguments.size());
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    const Shard &shard = placements[i][rank];
    if (arguments[i].isResult) {
      uint64_t bytes = shard.present ? arguments[i].localBytes() : 0;
      TANDEM_ASSIGN_OR_RETURN(results[i], BoundMemory::create(setup.context, bytes));
    }
    for (uint32_t set = 0; set < setup.sets; ++set) {
      BoundMemory *memory = results[i].get();
      if (!memory) {
        TANDEM_ASSIGN_OR_RETURN(memory, setup.pool.get(i, arguments[i], shard, set));
      }
      bindings[set].push_back(memory);
    }
  }
  return Status();
}

Status Candidate::prepare(const Setup &setup) {
  for (uint32_t i = 0; i < (mode == Mode::Graph ? setup.sets : 1); ++i) {
    TANDEM_ASSIGN_OR_RETURN(auto instance, PreparedProgram::create(setup.context, variant.bytes));
    instances.push_back(std::move(instance));
    if (mode == Mode::Traced)
      TANDEM_RETURN_IF_ERROR(context->check(tandem_trace(instances[i]->instance(), 1)));
    TANDEM_RETURN_IF_ERROR(bind(*instances[i], i));
  }
  bound = 0;
  return setup.poisons ? poison() : Status();
}

Status Candidate::bind(PreparedProgram &instance, uint32_t set) {
  const auto &arguments = program->arguments();
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    if (!placements[i][rank].present)
      continue;
    BoundMemory *memory = bindings[set][i];
    const ArgumentInfo &info = arguments[i];
    TANDEM_RETURN_IF_ERROR(context->check(
        tandem_bind(instance.instance(), i, memory->data(), memory->size(),
                    static_cast<tandem_dtype>(info.dtype),
                    static_cast<uint32_t>(info.localShape.size()), info.localShape.data())));
  }
  return Status();
}

Status Candidate::use(uint32_t set) {
  if (mode == Mode::Graph) {
    current = set;
    return Status();
  }
  if (bound != set)
    TANDEM_RETURN_IF_ERROR(bind(*instances[0], set));
  bound = set;
  return Status();
}

Status Candidate::poison() {
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i])
      TANDEM_RETURN_IF_ERROR(
          results[i]->write(poisonBytes(program->arguments()[i].dtype, results[i]->size()).data()));
  return Status();
}

Expected<Turn> Candidate::run(uint32_t batch) {
  tandem_instance *instance = instances[current]->instance();
  Turn turn;
  for (uint32_t i = 0; i < batch; ++i)
    TANDEM_RETURN_IF_ERROR(context->check(tandem_run_on(instance, nullptr)));
  turn.enqueued = nanoseconds();
  TANDEM_RETURN_IF_ERROR(context->check(tandem_wait(instance)));
  turn.done = nanoseconds();
  if (mode == Mode::Traced)
    TANDEM_RETURN_IF_ERROR(checkTimes(instance));
  return turn;
}

Status Candidate::checkTimes(tandem_instance *instance) const {
  const tandem_command_time *times = nullptr;
  uint32_t count = 0;
  TANDEM_RETURN_IF_ERROR(context->check(tandem_command_times(instance, &times, &count)));
  bool any = std::any_of(times, times + count, [](const auto &time) { return time.end_ns > 0; });
  return any || count == 0 ? Status()
                           : Status(Code::InvalidArgument, "a traced run recorded no times");
}

Status Candidate::compare(const std::vector<Tensor> &whole, uint64_t seed, uint32_t set,
                          References &references, double &error) const {
  // The fusion is one, however it runs.
  Role role = variant.role == Role::Sequence ? Role::Fused : variant.role;
  auto found = references.find({role, set});
  if (found == references.end()) {
    std::vector<Tensor> logical = makeInputs(seedOf(seed, set), *program);
    TANDEM_ASSIGN_OR_RETURN(Reference reference, computeReference(*file, logical));
    found = references.emplace(std::pair(role, set), std::move(reference)).first;
  }
  std::vector<ResultReport> reports;
  Status status = judge(*program, placements, whole, found->second, reports);
  for (const ResultReport &report : reports)
    error = std::max(error, report.comparison.error);
  return status;
}

Expected<std::string> Candidate::verify(Bootstrap &bootstrap, uint64_t seed, uint32_t set,
                                        References &references, double &error) {
  std::vector<Tensor> buffers(results.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i]) {
      const ArgumentInfo &info = program->arguments()[i];
      bool present = placements[i][rank].present;
      buffers[i] = Tensor(info.dtype, present ? info.localShape : std::vector<int64_t>{0});
      TANDEM_RETURN_IF_ERROR(results[i]->read(buffers[i].data.data()));
    }
  auto whole = gatherResults(*program, placements, buffers, bootstrap);
  if (!whole && rank != 0)
    return whole.status();
  std::future<Status> verdict;
  if (rank == 0)
    verdict = std::async(std::launch::async, [&] {
      return whole ? compare(*whole, seed, set, references, error) : whole.status();
    });
  // An oracle may take longer than ranks wait for each other: they meet again and again.
  for (;;) {
    bool done = rank != 0 || verdict.wait_for(kPatience) == std::future_status::ready;
    std::string mine = rank != 0 ? "" : done ? "=" + verdict.get().message() : "";
    TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, mine));
    if (!all[0].empty())
      return all[0].substr(1);
  }
}
