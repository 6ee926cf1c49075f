//===- Pipelines.cpp - from a fusion to a planned host program -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"
#include "tandem/Compiler/Passes.h"
#include "tandem/Conversion/FusionToHostIR/Passes.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Dialect/HostIR/Transforms/Passes.h"
#include "tandem/Target/StreamProgram/Targets.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace tandem;

namespace {

/// Appends passes except disabled ones, each followed by a snapshot if requested.
class PipelineBuilder {
public:
  PipelineBuilder(OpPassManager &manager, const TandemLowerOptions &options)
      : manager(manager), options(options) {
    snapshot("input");
  }

  void addOnModule(std::unique_ptr<Pass> pass) { add<ModuleOp>(std::move(pass), false); }
  void addOnFunctions(std::unique_ptr<Pass> pass) { add<func::FuncOp>(std::move(pass), true); }
  void addOnPrograms(std::unique_ptr<Pass> pass) { add<hostir::ProgramOp>(std::move(pass), true); }

private:
  template <typename OpT> void add(std::unique_ptr<Pass> pass, bool nested) {
    std::string name = pass->getArgument().str();
    if (llvm::is_contained(options.disable, name))
      return;
    if (nested)
      manager.addNestedPass<OpT>(std::move(pass));
    else
      manager.addPass(std::move(pass));
    snapshot(name);
  }

  void snapshot(StringRef stage) {
    if (options.snapshotDirectory.empty())
      return;
    TandemSnapshotOptions snapshotOptions;
    snapshotOptions.directory = options.snapshotDirectory;
    snapshotOptions.number = number++;
    snapshotOptions.stage = stage.str();
    manager.addPass(createTandemSnapshot(snapshotOptions));
  }

  OpPassManager &manager;
  const TandemLowerOptions &options;
  unsigned number = 0;
};

} // namespace

/// The value of option `gather`; none if it is invalid.
static std::optional<fusion::GatherMode> getGatherMode(const TandemLowerOptions &options) {
  StringRef where = options.gather;
  if (where.empty())
    where = options.machine.empty() ? "before" : "cost";
  return llvm::StringSwitch<std::optional<fusion::GatherMode>>(where)
      .Case("before", fusion::GatherMode::Before)
      .Case("after", fusion::GatherMode::After)
      .Case("cost", fusion::GatherMode::Cost)
      .Default(std::nullopt);
}

/// The options of a pass that prices its choices.
template <typename PassOptions>
static PassOptions getPricing(const TandemLowerOptions &options, const ChannelAbilities &channels) {
  PassOptions result;
  result.machine = options.machine;
  result.workers = options.workers;
  result.collectives = channels.collectives;
  result.oneSided = channels.oneSided;
  result.log = options.log;
  return result;
}

/// From known sizes to local ops and reshards.
static void addReshardPasses(PipelineBuilder &builder, const TandemLowerOptions &options,
                             const ChannelAbilities &channels) {
  builder.addOnFunctions(fusion::createFusionPropagateAxes(
      getPricing<fusion::FusionPropagateAxesOptions>(options, channels)));
  auto reshards = getPricing<fusion::FusionInsertReshardsOptions>(options, channels);
  reshards.gather = *getGatherMode(options);
  builder.addOnFunctions(fusion::createFusionInsertReshards(reshards));
  builder.addOnFunctions(fusion::createFusionSplitSums({options.log}));
  // All types are final: fold empty values, so that later passes see none.
  builder.addOnFunctions(fusion::createFusionFoldConstants({options.log}));
  builder.addOnFunctions(fusion::createFusionVerify({fusion::VerifyStage::Resharded}));
}

/// From local ops and reshards to loops with schedules.
static void addLoopPasses(PipelineBuilder &builder, const TandemLowerOptions &options,
                          const ChannelAbilities &channels) {
  builder.addOnFunctions(createFusionFormLoops({options.log}));
  auto select = getPricing<FusionSelectScheduleOptions>(options, channels);
  select.baseline = options.baseline;
  select.tuned.assign(options.choices.begin(), options.choices.end());
  select.among.assign(options.among.begin(), options.among.end());
  builder.addOnModule(createFusionSelectSchedule(select));
}

static void addConversion(PipelineBuilder &builder, const TandemLowerOptions &options) {
  ConvertFusionToHostIROptions convert;
  convert.workers = options.workers;
  convert.ranks = options.numRanks;
  convert.log = options.log;
  builder.addOnModule(createConvertFusionToHostIR(convert));
}

/// From host programs to planned ones.
static void addHostPasses(PipelineBuilder &builder, const TandemLowerOptions &options,
                          const ChannelAbilities &channels) {
  bool log = options.log;
  // Merges equal tests of mesh membership, and the code that they guard.
  builder.addOnModule(createCSEPass());
  // Merges equal views of one slice, for localize-buffers.
  builder.addOnModule(createCanonicalizerPass());
  builder.addOnModule(createCSEPass());
  // Before collectives are expanded: each is one access to a slice.
  builder.addOnPrograms(hostir::createLocalizeBuffers({log}));
  // Each slice of an intermediate is a buffer now, which fusion can remove.
  hostir::FuseLaunchesOptions fuse;
  fuse.log = log;
  builder.addOnModule(hostir::createFuseLaunches(fuse));
  builder.addOnPrograms(hostir::createFuseEpilogues({log}));
  if (!channels.collectives) {
    hostir::ExpandCollectivesOptions expand;
    expand.channelsWithoutCollectives = {"*"};
    expand.log = log;
    builder.addOnPrograms(hostir::createExpandCollectives(expand));
    builder.addOnModule(createCanonicalizerPass());
    builder.addOnModule(createCSEPass());
  }

  // After expansion, which adds scratch buffers.
  builder.addOnPrograms(hostir::createInsertDeallocs({log}));
  builder.addOnPrograms(hostir::createPlanBuffers({log}));
  builder.addOnPrograms(hostir::createVerify());
}

ArrayRef<StringRef> tandem::getTandemLowerPassNames() {
  static const StringRef names[] = {"fusion-scalars-to-tensors",
                                    "fusion-specialize",
                                    "fusion-erase-dead-ops",
                                    "fusion-bound-extents",
                                    "fusion-outline-reference",
                                    "fusion-pad-extents",
                                    "fusion-propagate-axes",
                                    "fusion-insert-reshards",
                                    "fusion-split-sums",
                                    "fusion-fold-constants",
                                    "fusion-verify",
                                    "fusion-narrow-products",
                                    "fusion-form-loops",
                                    "fusion-select-schedule",
                                    "convert-fusion-to-hostir",
                                    "canonicalize",
                                    "cse",
                                    "hostir-localize-buffers",
                                    "hostir-fuse-launches",
                                    "hostir-fuse-epilogues",
                                    "hostir-expand-collectives",
                                    "hostir-insert-deallocs",
                                    "hostir-plan-buffers",
                                    "hostir-verify"};
  return names;
}

LogicalResult tandem::buildTandemLowerPipeline(OpPassManager &manager,
                                               const TandemLowerOptions &options,
                                               function_ref<LogicalResult(const Twine &)> error) {
  const TargetInfo *target = lookupTarget(options.target);
  if (!target)
    return error(unknownTargetMessage(options.target));
  for (const std::string &name : options.disable)
    if (!llvm::is_contained(getTandemLowerPassNames(), name))
      return error("disable: the pipeline has no pass \"" + name + "\", expected one of " +
                   llvm::join(getTandemLowerPassNames(), ", "));
  std::optional<fusion::GatherMode> gather = getGatherMode(options);
  if (!gather)
    return error("gather: expected before, after or cost, found \"" + options.gather + "\"");
  if (gather == fusion::GatherMode::Cost && options.machine.empty())
    return error("gather: cost needs a machine");
  if (options.workers < 1)
    return error("workers: expected at least 1, found " + Twine(options.workers));
  bool log = options.log;

  PipelineBuilder builder(manager, options);

  builder.addOnFunctions(fusion::createFusionScalarsToTensors({log}));

  // First, so that later passes have known sizes.
  fusion::FusionSpecializeOptions specialize;
  specialize.mesh.assign(options.mesh.begin(), options.mesh.end());
  specialize.devices.assign(options.devices.begin(), options.devices.end());
  specialize.shape.assign(options.shape.begin(), options.shape.end());
  specialize.entry = options.entry;
  specialize.bound = options.bound;
  specialize.deterministic = options.deterministic;
  specialize.log = log;
  builder.addOnModule(fusion::createFusionSpecialize(specialize));

  // Unused values must neither be sent nor decide the placement of others.
  builder.addOnFunctions(fusion::createFusionEraseDeadOps({log}));

  // Before the reference, which has the same arguments.
  builder.addOnFunctions(fusion::createFusionBoundExtents({log}));

  // Copied before any pass makes decisions, so that no such pass can be wrong in both.
  if (options.reference)
    builder.addOnModule(fusion::createFusionOutlineReference({log}));

  // After the reference, which is not padded.
  builder.addOnFunctions(fusion::createFusionPadExtents({log}));

  ChannelAbilities channels{target->has(hostir::Capability::Collectives),
                            target->has(hostir::Capability::OneSided)};
  addReshardPasses(builder, options, channels);
  // Matmuls of cuBLASLt scale what they write. Partial sums are reduced before they are scaled: the
  // reshards must be there.
  if (!target->architectures.empty() && !target->architectures.front().isAmd())
    builder.addOnFunctions(fusion::createFusionNarrowProducts({log}));
  addLoopPasses(builder, options, channels);
  addConversion(builder, options);
  addHostPasses(builder, options, channels);
  return success();
}

void tandem::buildLoweringPasses(OpPassManager &manager, const TandemLowerOptions &options,
                                 const ChannelAbilities &channels, LoweringStart start) {
  PipelineBuilder builder(manager, options);
  if (start <= LoweringStart::PropagateAxes)
    addReshardPasses(builder, options, channels);
  if (start <= LoweringStart::FormLoops)
    addLoopPasses(builder, options, channels);
  if (start == LoweringStart::Host)
    addHostPasses(builder, options, channels);
  else
    addConversion(builder, options);
}
