//===- Pipelines.h - from a fusion to a planned host program -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_PIPELINES_H
#define TANDEM_COMPILER_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Options of `--tandem-lower`.
struct TandemLowerOptions : public PassPipelineOptions<TandemLowerOptions> {
  ListOption<std::string> mesh{*this, "mesh",
                               llvm::cl::desc("sizes of mesh axes that are `?`: x=8,gpu=4")};
  ListOption<std::string> shape{
      *this, "shape", llvm::cl::desc("shapes of arguments with `?` extents: arg0=8x64x32")};
  Option<std::string> entry{
      *this, "entry", llvm::cl::desc("the function whose arguments `shape` names; empty: all"),
      llvm::cl::init("")};
  Option<std::string> target{*this, "target",
                             llvm::cl::desc("what the program will run on (see tandem-compile)"),
                             llvm::cl::init("cpu-ucx")};
  Option<int64_t> workers{*this, "workers", llvm::cl::desc("size of the pool of worker streams"),
                          llvm::cl::init(4)};
  Option<int64_t> ranks{*this, "ranks",
                        llvm::cl::desc("ranks of the world; 0: as many as the meshes need"),
                        llvm::cl::init(0)};
  Option<std::string> gather{
      *this, "gather",
      llvm::cl::desc("where reshards go that could stand on either side of an op: before, after, "
                     "cost; empty: cost if there is a machine, else before"),
      llvm::cl::init("")};
  Option<std::string> machine{
      *this, "machine",
      llvm::cl::desc("machine file (h200x8, or a path) by which schedules, slices and the sides of "
                     "reshards are chosen where nobody has named them; empty: fixed rules"),
      llvm::cl::init("")};
  Option<bool> oracle{*this, "oracle",
                      llvm::cl::desc("lower the axes-erased twin of each fusion too"),
                      llvm::cl::init(true)};
  ListOption<std::string> disable{*this, "disable", llvm::cl::desc("passes to leave out, by name")};
  Option<std::string> snapshots{
      *this, "snapshots", llvm::cl::desc("folder for numbered snapshots of the IR after each pass"),
      llvm::cl::init("")};
  Option<bool> log{*this, "log", llvm::cl::desc("say as remarks what each pass did"),
                   llvm::cl::init(false)};
};

/// Appends the passes from a module of fusions to a module of planned host programs. Fails, through
/// `error`, on an option out of range: an unknown target, a name in `disable` that no pass of the
/// pipeline has.
LogicalResult buildTandemLowerPipeline(OpPassManager &manager, const TandemLowerOptions &options,
                                       function_ref<LogicalResult(const Twine &)> error);

/// What the channels of a target can do, besides messages with two sides.
struct ChannelAbilities {
  bool collectives = true, oneSided = true;
};

/// The pass from which on a candidate is lowered.
enum class LoweringStart {
  PropagateAxes, ///< sizes are known, types may be open
  FormLoops,     ///< ops are local or reshards
  Convert,       ///< loops have schedules
};

/// Appends its passes from one on. The options must be valid; `target` is replaced by what channels
/// can do.
void buildLoweringPasses(OpPassManager &manager, const TandemLowerOptions &options,
                         const ChannelAbilities &channels, LoweringStart start);

/// Names of the passes of the pipeline, in order: what `disable` accepts.
ArrayRef<StringRef> getTandemLowerPassNames();

} // namespace tandem

#endif // TANDEM_COMPILER_PIPELINES_H
