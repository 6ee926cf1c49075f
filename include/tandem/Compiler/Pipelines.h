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

/// Options of `--tandem-lower`: those of a compilation (tandem-c/CompileOptions.def) that passes
/// read, and its lists as texts.
struct TandemLowerOptions : public PassPipelineOptions<TandemLowerOptions> {
#define TANDEM_OPTION_LOWERING(type, member, name, value, description)                             \
  Option<type> member{*this, name, llvm::cl::desc(description), llvm::cl::init(value)};
#define TANDEM_OPTION_DRIVER(...)
#define TANDEM_OPTION_LIBRARY(...)
#define TANDEM_OPTION(type, member, stage, ...) TANDEM_OPTION_##stage(type, member, __VA_ARGS__)
#include "tandem-c/CompileOptions.def"
#undef TANDEM_OPTION_LOWERING
#undef TANDEM_OPTION_DRIVER
#undef TANDEM_OPTION_LIBRARY
  ListOption<std::string> mesh{*this, "mesh",
                               llvm::cl::desc("sizes of mesh axes that are `?`: x=8,gpu=4")};
  ListOption<int64_t> devices{
      *this, "devices",
      llvm::cl::desc("devices of meshes with such axes that have as many: 0,2,1,3")};
  ListOption<std::string> shape{
      *this, "shape", llvm::cl::desc("shapes of arguments with `?` extents: arg0=8x64x32")};
  ListOption<std::string> choices{
      *this, "tuned",
      llvm::cl::desc("measured choices: LOOP=CANDIDATE, a loop's signature and the text of a "
                     "candidate")};
  ListOption<std::string> among{
      *this, "among",
      llvm::cl::desc("I/N=CANDIDATE: of N loops with reshards, loop I chooses by cost among these "
                     "candidates and the plainest")};
  ListOption<std::string> disable{*this, "disable", llvm::cl::desc("passes to skip, by name")};
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
/// on, those after it. The options must be valid; the abilities replace `target`.
void buildLoweringPasses(OpPassManager &manager, const TandemLowerOptions &options,
                         const ChannelAbilities &channels, LoweringStart start);

/// The names of the pipeline's passes in order; `disable` accepts them.
ArrayRef<StringRef> getTandemLowerPassNames();

} // namespace tandem

#endif // TANDEM_COMPILER_PIPELINES_H
