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

namespace tandem {
std::unique_ptr<Transport> createFilesTransport(); // of docs/contribute.md
}

namespace tandem::test {

namespace {

/// The cpu device, which says that its memory is not the host's: channels of host memory must then
/// be staged, as for a GPU.
class ApartDevice final : public Device {
public:
  std::string_view name() const override { return "apart"; }
  bool hostMemory() const override { return false; }
  Expected<std::unique_ptr<Stream>> createStream(StreamPriority priority) override {
    return inner->createStream(priority);
  }
  Expected<std::unique_ptr<Event>> createEvent() override { return inner->createEvent(); }
  Expected<std::unique_ptr<Memory>> allocate(uint64_t bytes, MemoryKind kind) override {
    return inner->allocate(bytes, kind);
  }
  Expected<std::unique_ptr<Operation>> prepareCopy(const Operand &dst,
                                                   const Operand &src) override {
    return inner->prepareCopy(dst, src);
  }
  Expected<std::unique_ptr<Operation>> prepareMatmul(const MatmulDesc &desc) override {
    return inner->prepareMatmul(desc);
  }
  Expected<std::unique_ptr<Operation>> prepareAccumulate(const Operand &dst, const Operand &src,
                                                         ReduceOp op) override {
    return inner->prepareAccumulate(dst, src, op);
  }
  Expected<std::unique_ptr<Operation>> prepareReduce(const Operand &dst, const Operand &src,
                                                     uint64_t dims, ReduceOp op,
                                                     bool ordered) override {
    return inner->prepareReduce(dst, src, dims, op, ordered);
  }
  Expected<std::unique_ptr<Operation>> prepareLaunch(const LaunchDesc &desc) override {
    return inner->prepareLaunch(desc);
  }
  void abort(const Status &reason) override { inner->abort(reason); }

private:
  std::unique_ptr<Device> inner = createCpuDevice();
};

Expected<std::unique_ptr<Device>> makeDevice(const std::string &name, uint32_t localRank) {
  if (name == "apart")
    return std::make_unique<ApartDevice>();
  return createDevice(name, {}, localRank);
}

/// An instance's arguments in memory of the device.
class Arguments {
public:
  Arguments(Device &device, Instance &instance) : device(device), instance(instance) {}

  Status bind() {
    const auto &arguments = instance.program().arguments();
    memory.resize(arguments.size());
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      const ArgumentInfo &info = arguments[i];
      if (!info.present)
        continue;
      TANDEM_ASSIGN_OR_RETURN(memory[i], device.allocate(info.localBytes(), MemoryKind::Plain));
      Layout layout = Layout::dense(info.dtype, info.localShape.data(),
                                    static_cast<unsigned>(info.localShape.size()));
      TANDEM_RETURN_IF_ERROR(instance.bind(i, {memory[i]->data(), layout}, info.localBytes()));
    }
    return Status();
  }
  /// Inputs of one set; results are poisoned.
  Status fill(const std::vector<Bytes> &set) {
    const auto &arguments = instance.program().arguments();
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      if (!memory[i])
        continue;
      Bytes bytes = arguments[i].isResult || set[i].empty()
                        ? Bytes(arguments[i].localBytes(), kPoison)
                        : set[i];
      TANDEM_RETURN_IF_ERROR(device.upload(memory[i]->data(), bytes.data(), bytes.size()));
    }
    return Status();
  }
  Expected<std::vector<Bytes>> results() {
    const auto &arguments = instance.program().arguments();
    std::vector<Bytes> outputs(arguments.size());
    for (uint32_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].isResult && memory[i]) {
        outputs[i].resize(arguments[i].localBytes());
        TANDEM_RETURN_IF_ERROR(
            device.download(outputs[i].data(), memory[i]->data(), outputs[i].size()));
      }
    return outputs;
  }

private:
  Device &device;
  Instance &instance;
  std::vector<std::unique_ptr<Memory>> memory;
};

Status runAll(Context &context, Instance &instance, const Scenario &scenario, uint32_t rank,
              RankResult &result) {
  Arguments arguments(context.device(), instance);
  TANDEM_RETURN_IF_ERROR(arguments.bind());
  if (scenario.pipelined) {
    TANDEM_RETURN_IF_ERROR(arguments.fill(scenario.data[0][rank]));
    for (unsigned run = 0; run < scenario.runs; ++run)
      TANDEM_RETURN_IF_ERROR(instance.enqueue());
    TANDEM_RETURN_IF_ERROR(instance.wait());
    TANDEM_ASSIGN_OR_RETURN(auto outputs, arguments.results());
    result.outputs.push_back(std::move(outputs));
    return Status();
  }
  for (unsigned run = 0; run < scenario.runs; ++run) {
    TANDEM_RETURN_IF_ERROR(arguments.fill(scenario.data[run % scenario.data.size()][rank]));
    TANDEM_RETURN_IF_ERROR(instance.run());
    TANDEM_ASSIGN_OR_RETURN(auto outputs, arguments.results());
    result.outputs.push_back(std::move(outputs));
  }
  return Status();
}

/// The instance and one more of the same program, each on a stream of its own, by turns. In every
/// other turn the arguments lie elsewhere.
Status runByTurns(Context &context, Instance &first, std::shared_ptr<const Program> program,
                  const Scenario &scenario, uint32_t rank, RankResult &result) {
  TANDEM_ASSIGN_OR_RETURN(auto second, Instance::create(context, std::move(program)));
  Instance *instances[] = {&first, second.get()};
  Device &device = context.device();
  std::shared_ptr<Stream> streams[2];
  std::vector<Arguments> places;
  for (int k = 0; k < 2; ++k) {
    TANDEM_ASSIGN_OR_RETURN(streams[k], device.createStream(StreamPriority::Normal));
    for (int place = 0; place < 2; ++place)
      places.emplace_back(device, *instances[k]);
  }
  auto takeTurns = [&]() -> Status {
    for (unsigned turn = 0; turn < 4; ++turn) {
      for (int k = 0; k < 2; ++k) {
        Arguments &place = places[static_cast<size_t>(k) * 2 + turn % 2];
        TANDEM_RETURN_IF_ERROR(place.bind());
        TANDEM_RETURN_IF_ERROR(place.fill(scenario.data[0][rank]));
      }
      for (unsigned run = 0; run < scenario.runs; ++run)
        for (int k = 0; k < 2; ++k)
          TANDEM_RETURN_IF_ERROR(instances[k]->enqueue(streams[k]));
      for (int k = 0; k < 2; ++k) {
        TANDEM_RETURN_IF_ERROR(instances[k]->wait());
        TANDEM_ASSIGN_OR_RETURN(auto outputs,
                                places[static_cast<size_t>(k) * 2 + turn % 2].results());
        result.outputs.push_back(std::move(outputs));
      }
    }
    return Status();
  };
  Status status = takeTurns();
  for (Instance *instance : instances) // before their memory goes
    instance->wait().ignore();
  return status;
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
  if (scenario.byTurns)
    return runByTurns(context, *instance, program, scenario, rank, result);
  return runAll(context, *instance, scenario, rank, result);
}

} // namespace

RankResult runRank(const Backend &backend, const Scenario &scenario, const std::string &file,
                   std::unique_ptr<Bootstrap> bootstrap, std::unique_ptr<Transport> transport) {
  RankResult result;
  result.status = [&]() -> Status {
    ContextOptions options;
    TANDEM_ASSIGN_OR_RETURN(options.device, makeDevice(backend.device, bootstrap->localRank()));
    options.bootstrap = std::move(bootstrap);
    if (transport)
      options.transports.push_back(std::move(transport));
    options.timeout = scenario.timeout;
    if (!scenario.patience.empty())
      options.timeout *= scenario.patience[options.bootstrap->rank()];
    TANDEM_ASSIGN_OR_RETURN(auto opened, ProgramFile::fromMemory(file));
    TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
    return runOn(*context, *opened, scenario, result);
  }();
  return result;
}

Expected<std::unique_ptr<Transport>> makeTransport(const std::string &name) {
  if (name == "files")
    return createFilesTransport();
  return createTransport(name);
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
      if (backend.channel == "local") {
        results[r] = runRank(backend, scenario, file, world->bootstrap(r), world->transport(r));
        return;
      }
      auto bootstrap = world->bootstrap(r);
      auto transport = makeTransport(backend.channel);
      if (transport)
        results[r] = runRank(backend, scenario, file, std::move(bootstrap), std::move(*transport));
      else
        results[r].status = transport.status();
    });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

/// GPUs of a kind ("cuda", "hip"). Staged channels let ranks share one; ccl does not.
static void addGpuBackends(std::vector<Backend> &all, const std::string &kind, std::string noUcx) {
  std::string name = kind == "cuda" ? "Cuda" : "Hip";
  Probe gpus = probeGpus(kind);
  // Processes first: once a driver was started here, children that are forked have none.
  noUcx = gpus.why.empty() ? std::move(noUcx) : gpus.why;
  all.push_back({name + "Ucx", kind, "ucx", true, TwoSided, noUcx});
  std::string noCcl = gpus.why.empty() ? probeTransport("ccl") : gpus.why;
  for (bool processes : {true, false}) {
    if (!processes)
      all.push_back({name + "Local", kind, "local", false, TwoSided | Collectives, gpus.why});
    Backend ccl{name + (processes ? "CclProcesses" : "Ccl"),
                kind,
                "ccl",
                processes,
                TwoSided | Collectives,
                noCcl};
    ccl.lacks |= kTagsInAnyOrder;
    ccl.mostRanks = std::max(gpus.count, 2u);
    if (noCcl.empty() && gpus.count < 2)
      ccl.unavailable = "this machine has one GPU";
    all.push_back(ccl);
    // Ranks may share a GPU.
    Backend peer{
        name + (processes ? "PeerProcesses" : "Peer"), kind, "peer", processes, OneSided, gpus.why};
    if (processes) // they would take turns in slices of milliseconds
      peer.mostRanks = std::max(gpus.count, 2u);
    all.push_back(peer);
  }
  for (Backend &backend : all)
    if (backend.device == kind) // it runs native code, which the compiler makes
      backend.lacks |=
          kExpressions | kF64Matmul | (kind == "hip" ? kOrderedMatmul | kFp8Epilogues : 0);
}

std::vector<Backend> backends() {
  std::vector<Backend> all;
  all.push_back({"CpuLocal", "cpu", "local", false, TwoSided | OneSided | Collectives, ""});
  Backend ucx{"CpuUcx", "cpu", "ucx", true, TwoSided | OneSided, ""};
  ucx.unavailable = probeTransport("ucx");
  all.push_back(ucx);
  Backend files{"CpuFiles", "cpu", "files", true, TwoSided, ""};
  files.mostRanks = 3; // to save time
  all.push_back(files);
  all.push_back({"StagedLocal", "apart", "local", false, TwoSided | Collectives, ""});
  for (const char *kind : {"cuda", "hip"})
    addGpuBackends(all, kind, ucx.unavailable);
  return all;
}

} // namespace tandem::test
