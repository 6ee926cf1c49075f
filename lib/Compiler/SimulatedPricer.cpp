//===- SimulatedPricer.cpp - candidates lowered and simulated ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SimulatedPricer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Compiler/Pipelines.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/HostIR/IR/HostIRDialect.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Replay/Machine.h"
#include "tandem/Replay/Simulate.h"
#include "tandem/Replay/World.h"
#include "tandem/Support/Explained.h"
#include "tandem/Target/StreamProgram/StreamProgram.h"
#include "llvm/Support/FormatVariadic.h"

#include <mutex>
#include <optional>
#include <unordered_map>

using namespace mlir;
using namespace tandem;

namespace {

/// A machine and its prices by signature; none: the candidate cannot be lowered.
struct PricedMachine {
  /// Forgets the prices above this number: a context may live as long as a training job.
  static constexpr size_t kMaxPrices = size_t(1) << 14;

  explicit PricedMachine(machine::Machine machine) : machine(std::move(machine)) {}

  const machine::Machine machine;
  std::mutex mutex; ///< guards `prices`
  std::unordered_map<std::string, std::optional<double>> prices;
};

/// Has all channel kinds, and compiles no GPU kernels.
constexpr char kTarget[] = "cpu-local";

class SimulatedPricer final : public Pricer {
public:
  SimulatedPricer(const Options &options, std::shared_ptr<PricedMachine> priced)
      : options(options), priced(std::move(priced)), machine(this->priced->machine) {}

  StringRef getMachineName() const override { return machine.name; }
  program::CapabilitySet getCapabilities() const override { return machine.capabilities(); }
  const program::Margins &getMargins() const override { return machine.margins; }

  bool isWorth(double seconds, double plain, const Difference &difference) const override {
    using program::Capability;
    const program::Margins &margins = machine.margins;
    program::CapabilitySet uses = difference.uses;
    bool besideCompute = uses.has(Capability::StoresBesideCompute);
    if (besideCompute && !getCapabilities().has(Capability::StoresBesideCompute))
      return false;
    // One kernel in the place of a collective, and all else is the same.
    bool isKernel = !besideCompute && !(uses & program::CapabilitySet{Capability::SimpleProtocol,
                                                                      Capability::BlockProtocol,
                                                                      Capability::LLProtocol})
                                           .empty();
    auto takesSms = [](machine::Mover mover) { return mover == machine::Mover::Sm; };
    bool beside = uses.has(Capability::OneSided)
                      ? takesSms(machine.oneSided.mover)
                      : takesSms(machine.twoSided.mover) || takesSms(machine.collectives.mover);
    bool byEngines = uses.has(Capability::OneSided) && !beside && !isKernel && !besideCompute &&
                     !uses.has(Capability::EpilogueStore);
    double fraction = isKernel || byEngines ? margins.gainOfCopies : margins.gain;
    if (difference.isSliced && (beside || besideCompute))
      fraction = std::max(fraction, margins.gainBesideSms);
    double least = isKernel                          ? margins.secondsOfKernel
                   : byEngines && difference.gathers ? margins.secondsOfGathers
                                                     : margins.seconds;
    return plain - seconds >= std::max(fraction * plain, least);
  }

  FailureOr<double> price(func::FuncOp func, From from) override;
  FailureOr<double> price(Operation *loop, StringRef signature,
                          function_ref<OwningOpRef<ModuleOp>()> lower) override;

private:
  /// The price of this signature; else that of the host IR which `lower` makes.
  FailureOr<double> price(Operation *op, std::string signature, StringRef name, bool fused,
                          function_ref<OwningOpRef<ModuleOp>()> lower);
  FailureOr<double> simulate(OwningOpRef<ModuleOp> module, StringRef name, bool fused);
  /// Simulates a lowered module. `byClasses`: one rank per class if ranks differ only in their
  /// peers, else all. `fused`: failure if the machine has kernels for gated matmuls or fused
  /// exchanges, but not for one of these.
  FailureOr<double> simulate(ModuleOp module, StringRef name, bool byClasses, bool fused) const;
  PassManager &getPasses(MLIRContext *context, LoweringStart start);

  const Options options;
  const std::shared_ptr<PricedMachine> priced;
  const machine::Machine &machine;
  std::optional<PassManager> passesFrom[3]; ///< created at first use
};

} // namespace

FailureOr<double> SimulatedPricer::price(Operation *op, std::string signature, StringRef name,
                                         bool fused, function_ref<OwningOpRef<ModuleOp>()> lower) {
  {
    std::lock_guard<std::mutex> lock(priced->mutex);
    if (auto known = priced->prices.find(signature); known != priced->prices.end())
      return known->second ? FailureOr<double>(*known->second) : FailureOr<double>(failure());
  }
  FailureOr<double> seconds = failure();
  // A candidate that cannot be lowered is not a user error: it has no price.
  (void)runTrial(op, [&]() -> LogicalResult { return seconds = simulate(lower(), name, fused); });
  std::lock_guard<std::mutex> lock(priced->mutex);
  if (priced->prices.size() >= PricedMachine::kMaxPrices)
    priced->prices.clear();
  const std::optional<double> &price = seconds;
  priced->prices.try_emplace(std::move(signature), price);
  return seconds;
}

FailureOr<double> SimulatedPricer::price(Operation *loop, StringRef signature,
                                         function_ref<OwningOpRef<ModuleOp>()> lower) {
  return price(loop, ("loop " + signature).str(), "candidate", /*fused=*/true, lower);
}

FailureOr<double> SimulatedPricer::price(func::FuncOp func, From from) {
  LoweringStart start =
      from == From::PropagateAxes ? LoweringStart::PropagateAxes : LoweringStart::FormLoops;
  std::string signature = (from == From::PropagateAxes ? "axes " : "loops ") + getSignature(func);
  return price(func, std::move(signature), func.getSymName(), /*fused=*/false, [&] {
    MLIRContext *context = func.getContext();
    OwningOpRef<ModuleOp> module(ModuleOp::create(func.getLoc()));
    func::FuncOp copy = func.clone();
    copy.setPublic();
    if (!options.deterministic.empty())
      copy->setAttr(fusion::kDeterministicAttrName,
                    StringAttr::get(context, options.deterministic));
    module->push_back(copy);
    return succeeded(getPasses(context, start).run(*module)) ? std::move(module)
                                                             : OwningOpRef<ModuleOp>();
  });
}

PassManager &SimulatedPricer::getPasses(MLIRContext *context, LoweringStart start) {
  std::optional<PassManager> &passes = passesFrom[static_cast<size_t>(start)];
  if (!passes) {
    passes.emplace(context);
    passes->enableVerifier(false);
    TandemLowerOptions lowering;
    lowering.machine = options.machine;
    lowering.workers = options.workers;
    // What never changes a command: checks, and where buffers begin and end.
    lowering.disable = {"hostir-verify", "hostir-insert-deallocs", "hostir-plan-buffers"};
    buildLoweringPasses(*passes, lowering, {options.collectives, options.oneSided}, start);
  }
  return *passes;
}

/// Whether there is a choice of how many commands the program has: launches that may be fused.
static bool hasLaunches(ModuleOp module) {
  return module.walk([](hostir::LaunchOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Addresses have no price: each buffer gets memory of its own.
static void placeBuffers(hostir::ProgramOp program) {
  int64_t bytes = 0;
  program.walk([&](hostir::AllocOp alloc) {
    MemRefType type = alloc.getBuffer().getType();
    alloc.setOffset(bytes);
    bytes += llvm::alignTo(
        type.getNumElements() * llvm::divideCeil(type.getElementTypeBitWidth(), 8), 64);
  });
  program.setArenaBytes(bytes);
  program.setSymmetricBytes(bytes);
}

FailureOr<double> SimulatedPricer::simulate(OwningOpRef<ModuleOp> module, StringRef name,
                                            bool fused) {
  if (!module)
    return failure();
  // Of programs without launches, the passes after the conversion only expand collectives.
  if ((!options.collectives || hasLaunches(*module)) &&
      failed(getPasses(module->getContext(), LoweringStart::Host).run(*module)))
    return failure();
  placeBuffers(module->lookupSymbol<hostir::ProgramOp>(name));
  return simulate(*module, name, machine.sharesOnlyPorts(), fused);
}

FailureOr<double> SimulatedPricer::simulate(ModuleOp module, StringRef name, bool byClasses,
                                            bool fused) const {
  StreamProgramOptions translation;
  translation.target = kTarget;
  translation.withReference = false;
  UniformRanks uniform;
  translation.uniform = byClasses ? &uniform : nullptr;
  FailureOr<std::string> bytes = translateToStreamProgram(module, name, translation);
  if (failed(bytes))
    return failure();
  auto file = ProgramFile::fromMemory(*bytes);
  if (!file)
    return failure();
  bool isUniform = uniform.numRanks > 0;
  auto world = isUniform ? replay::World::loadClasses(**file, uniform, machine.devicesPerNode)
                         : replay::World::load(**file);
  if (!world && isUniform)
    return simulate(module, name, /*byClasses=*/false, fused);
  if (!world)
    return failure();
  simulate::Options options;
  options.totalOnly = true;
  auto result = simulate::simulate(**world, machine, options);
  if (!result || result->outOfReach != replay::kNone)
    return failure();
  bool ungated = machine.hasGatedMatmuls() && result->ungated != replay::kNone;
  if (fused && (ungated || result->unfused != replay::kNone))
    return failure();
  return result->seconds;
}

namespace {

class SimulatedPricerInterface final : public PricerInterface {
public:
  using PricerInterface::PricerInterface;

  std::unique_ptr<Pricer> create(const Pricer::Options &options,
                                 std::string &error) const override {
    Expected<std::shared_ptr<PricedMachine>> machine = find(options);
    Status status = machine ? (*machine)->machine.checkRanks(static_cast<uint32_t>(options.ranks))
                            : machine.status();
    if (status.ok())
      return std::make_unique<SimulatedPricer>(options, std::move(*machine));
    error = status.message();
    return nullptr;
  }

private:
  /// The prices of this context for these options. A machine is identified by its file's text and
  /// the texts that it extends.
  Expected<std::shared_ptr<PricedMachine>> find(const Pricer::Options &options) const {
    std::string path = machine::pathOf(options.machine);
    TANDEM_ASSIGN_OR_RETURN(auto files, machine::readMachine(path));
    std::string key = llvm::formatv("{0}|{1}|{2}|{3}|{4}", path, options.workers,
                                    options.collectives, options.oneSided, options.deterministic);
    for (const machine::MachineFile &file : files)
      key += file.text;
    std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<PricedMachine> &known = machines[key];
    if (!known) {
      TANDEM_ASSIGN_OR_RETURN(auto machine, machine::Machine::load(path));
      known = std::make_shared<PricedMachine>(std::move(machine));
    }
    return known;
  }

  mutable std::mutex mutex; ///< guards `machines`
  mutable std::unordered_map<std::string, std::shared_ptr<PricedMachine>> machines;
};

} // namespace

void tandem::registerSimulatedPricer(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, fusion::FusionDialect *dialect) {
    // Dialects of the passes that give a price, which cannot be loaded while a pass runs.
    context->loadDialect<hostir::HostIRDialect, arith::ArithDialect, memref::MemRefDialect,
                         scf::SCFDialect>();
    dialect->addInterfaces<SimulatedPricerInterface>();
  });
}
