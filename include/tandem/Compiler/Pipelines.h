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
  ListOption<int64_t> devices{
      *this, "devices",
      llvm::cl::desc("devices of meshes with such axes that have as many: 0,2,1,3")};
  ListOption<std::string> shape{
      *this, "shape", llvm::cl::desc("shapes of arguments with `?` extents: arg0=8x64x32")};
  Option<int64_t> bound{*this, "bound",
                        llvm::cl::desc("largest extent of the `?` of arguments that `shape` leaves "
                                       "open, which may vary from run to run; 0: none"),
                        llvm::cl::init(0)};
  Option<std::string> entry{
      *this, "entry", llvm::cl::desc("the function whose arguments `shape` names; empty: all"),
      llvm::cl::init("")};
  Option<std::string> target{*this, "target",
                             llvm::cl::desc("compile target (tandem-compile --help lists them)"),
                             llvm::cl::init("cpu-ucx")};
  Option<int64_t> workers{*this, "workers", llvm::cl::desc("size of the pool of worker streams"),
                          llvm::cl::init(4)};
  Option<int64_t> ranks{*this, "ranks",
                        llvm::cl::desc("ranks of the world; 0: as many as the meshes need"),
                        llvm::cl::init(0)};
  Option<std::string> gather{
      *this, "gather",
      llvm::cl::desc("position of reshards that may go on either side of an op: before, after "
                     "or cost; empty: cost with a machine, else before"),
      llvm::cl::init("")};
  Option<std::string> machine{
      *this, "machine",
      llvm::cl::desc("machine file (h200x8, or a path) whose costs decide schedules, slices and "
                     "reshard positions that the module leaves open; empty: fixed rules"),
      llvm::cl::init("")};
  Option<std::string> deterministic{
      *this, "deterministic",
      llvm::cl::desc("bitwise or batch: in place of the module's `fusion.deterministic`; empty: as "
                     "the module says"),
      llvm::cl::init("")};
  ListOption<std::string> tuned{
      *this, "tuned",
      llvm::cl::desc("measured choices: LOOP=CANDIDATE, a loop's signature and the text of a "
                     "candidate")};
  ListOption<std::string> among{
      *this, "among",
      llvm::cl::desc("I/N=CANDIDATE: of N loops with reshards, loop I chooses by cost among these "
                     "candidates and the plainest")};
  Option<bool> baseline{*this, "baseline",
                        llvm::cl::desc("all loops run unoverlapped, whatever their annotations"),
                        llvm::cl::init(false)};
  Option<bool> oracle{*this, "oracle",
                      llvm::cl::desc("also lower the unsharded reference of each fusion"),
                      llvm::cl::init(true)};
  ListOption<std::string> disable{*this, "disable", llvm::cl::desc("passes to skip, by name")};
  Option<std::string> snapshots{
      *this, "snapshots", llvm::cl::desc("folder for numbered snapshots of the IR after each pass"),
      llvm::cl::init("")};
  Option<bool> log{*this, "log", llvm::cl::desc("emit remarks about the effect of each pass"),
                   llvm::cl::init(false)};
};

/// Appends the passes that lower a module of fusions to planned host programs. Fails with `error`
/// on an invalid option: an unknown target, or a name in `disable` that is no pass of the pipeline.
LogicalResult buildTandemLowerPipeline(OpPassManager &manager, const TandemLowerOptions &options,
                                       function_ref<LogicalResult(const Twine &)> error);

/// Capabilities of a target's channels besides two-sided messages.
struct ChannelAbilities {
  bool collectives = true, oneSided = true;
};

/// The first pass that lowers a candidate.
enum class LoweringStart {
  PropagateAxes, ///< sizes are known; types may be undecided
  FormLoops,     ///< ops are local or reshards
  Host,          ///< host programs
};

/// Appends the pipeline's passes from `start` up to the conversion to host programs, or, from Host
/// on, those behind it. The options must be valid; the abilities replace `target`.
void buildLoweringPasses(OpPassManager &manager, const TandemLowerOptions &options,
                         const ChannelAbilities &channels, LoweringStart start);

/// The names of the pipeline's passes in order; `disable` accepts them.
ArrayRef<StringRef> getTandemLowerPassNames();

} // namespace tandem

#endif // TANDEM_COMPILER_PIPELINES_H
