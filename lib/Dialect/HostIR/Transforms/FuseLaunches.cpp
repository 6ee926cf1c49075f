//===- FuseLaunches.cpp - one kernel of launches that feed each other -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaunchGroup.h"
#include "PassLog.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Dialect/HostIR/Transforms/Passes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace tandem::hostir {
#define GEN_PASS_DEF_FUSELAUNCHES
#include "tandem/Dialect/HostIR/Transforms/Passes.h.inc"
} // namespace tandem::hostir

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

//===----------------------------------------------------------------------===//
// What a group may move after
//===----------------------------------------------------------------------===//

// Whether they are provably different streams.
static bool areDifferentStreams(Value a, Value b) {
  auto isMain = [](Value v) { return bool(v.getDefiningOp<MainStreamOp>()); };
  auto isWorker = [](Value v) { return bool(v.getDefiningOp<WorkerStreamOp>()); };
  return (isMain(a) && isWorker(b)) || (isWorker(a) && isMain(b));
}

// The reason why the group must not move past one op (ignoring nested ops); empty if it may.
static StringRef whatForbids(Operation *op, const LaunchGroup &group) {
  if (auto sync = dyn_cast<SyncOp>(op))
    return areDifferentStreams(sync.getSignaler(), group.stream())
               ? ""
               : "a sync in between may tell another stream that it is done";
  // Deallocs on the group's stream move along with it.
  if (auto dealloc = dyn_cast<DeallocOp>(op))
    return group.touches(dealloc.getBuffer()) && !isSameStream(dealloc.getStream(), group.stream())
               ? "a buffer ends in between, on another stream"
               : "";
  if (isa<PutOp, SignalOp, WaitSignalOp, PeerExchangeOp>(op))
    return "a one-sided message is in between";
  if (isa<AllocOp, scf::ForOp, scf::IfOp, GroupOp, GatedMatmulOp>(op) || isMemoryEffectFree(op))
    return "";
  if (!isa<HostIRDialect>(op->getDialect()))
    return "an unknown op is in between";
  if (group.isSymmetric())
    return "peers may see that it is done";
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    Value root = getViewRoot(operand.get());
    if (group.writes(root))
      return "a command in between uses what it writes";
    auto effects = cast<MemoryEffectOpInterface>(op);
    if (group.reads(root) && effects.getEffectOnValue<MemoryEffects::Write>(operand.get()))
      return "a command in between writes what it reads";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Fusing in one block
//===----------------------------------------------------------------------===//

namespace {

/// Kernels of the module, and new ones, by their computation.
struct Kernels {
  explicit Kernels(ModuleOp module) : symbols(module) {}
  SymbolTable symbols;
  llvm::StringMap<KernelOp> fused;
  llvm::SetVector<Operation *> replaced;
};

class BlockFuser {
public:
  /// `rounds`: what a launch stores in 16 or 8 bits and another one reads stays rounded.
  BlockFuser(Block &block, Kernels &kernels, int64_t maxOperands, int64_t maxOps, bool rounds)
      : block(block), kernels(kernels), maxOperands(maxOperands), maxOps(maxOps), rounds(rounds) {}

  /// Finds the groups, then rewrites those of several launches. Calls `onFused(launch, members,
  /// buffers)` and `onKept(launch, why)`.
  void run(function_ref<void(LaunchOp, size_t, size_t)> onFused,
           function_ref<void(LaunchOp, StringRef)> onKept) {
    for (LaunchOp launch : block.getOps<LaunchOp>())
      visit(launch, onKept);
    for (const std::optional<LaunchGroup> &group : groups) {
      if (!group || group->members.size() < 2)
        continue;
      auto [fused, buffers] = rewrite(*group);
      if (fused)
        onFused(fused, group->members.size(), buffers);
    }
  }

private:
  void visit(LaunchOp launch, function_ref<void(LaunchOp, StringRef)> onKept) {
    auto kernel = kernels.symbols.lookup<KernelOp>(launch.getKernel());
    if (!kernel)
      return;
    size_t number = groups.size();
    groups.push_back(LaunchGroup::create(launch, kernel, views));
    groupOf[launch] = number;
    // The latest writer first: ops between an earlier writer and here may then be in the group.
    llvm::SmallSetVector<size_t, 4> sources;
    auto addSources = [&](const LaunchGroup &group) {
      for (const LaunchView &view : group.inputs)
        if (auto found = writer.find(view.root); found != writer.end())
          sources.insert(found->second);
    };
    addSources(*groups[number]);
    llvm::SmallDenseSet<size_t> tried;
    for (;;) {
      std::optional<size_t> latest;
      for (size_t source : sources)
        if (!tried.contains(source) && source != number && groups[source] &&
            (!latest || groups[*latest]->last()->isBeforeInBlock(groups[source]->last())))
          latest = source;
      if (!latest)
        break;
      tried.insert(*latest);
      StringRef why;
      std::optional<LaunchGroup> merged = tryMerge(*latest, *groups[number], why);
      if (!merged) {
        onKept(launch, why);
        continue;
      }
      for (const LaunchGroup::Member &member : groups[*latest]->members)
        groupOf[member.launch] = number;
      groups[*latest].reset();
      groups[number] = std::move(merged);
    }
    for (const LaunchGroup::Output &output : groups[number]->outputs)
      writer[output.view.root] = number;
  }

  std::optional<LaunchGroup> tryMerge(size_t earlier, const LaunchGroup &group, StringRef &why) {
    const LaunchGroup &first = *groups[earlier];
    if (!isSameStream(first.stream(), group.stream())) {
      why = "it is on another stream";
      return std::nullopt;
    }
    if (rounds && llvm::any_of(group.inputs, [&](const LaunchView &view) {
          Type element = cast<MemRefType>(view.view.getType()).getElementType();
          return first.writes(view.root) && isa<FloatType>(element) &&
                 element.getIntOrFloatBitWidth() < 32;
        })) {
      why = "a deterministic program rounds what is between them";
      return std::nullopt;
    }
    std::optional<LaunchGroup> merged = LaunchGroup::merge(first, group, why);
    if (!merged)
      return std::nullopt;
    if (static_cast<int64_t>(merged->inputs.size() + merged->outputs.size()) > maxOperands ||
        merged->numOps() > maxOps) {
      why = "the kernel would be too large";
      return std::nullopt;
    }
    why = whatForbidsMove(earlier, group);
    if (!why.empty())
      return std::nullopt;
    return merged;
  }

  StringRef whatForbidsMove(size_t earlier, const LaunchGroup &group) {
    const LaunchGroup &first = *groups[earlier];
    StringRef why;
    for (Operation *op = first.last()->getNextNode(); op != group.last(); op = op->getNextNode()) {
      if (auto launch = dyn_cast<LaunchOp>(op)) {
        // Skip launches that are already in the group, or in another one that runs later.
        auto found = groupOf.find(launch);
        if (found != groupOf.end()) {
          const LaunchGroup &other = *groups[found->second];
          if (other.last() != launch)
            continue;
          if (llvm::any_of(group.members, [&](auto &member) { return member.launch == launch; }))
            continue;
          auto conflicts = [&](const LaunchView &view, bool writes) {
            return first.writes(view.root) || (writes && first.reads(view.root));
          };
          if (llvm::any_of(other.inputs,
                           [&](const LaunchView &v) { return conflicts(v, false); }) ||
              llvm::any_of(other.outputs, [&](const auto &o) { return conflicts(o.view, true); }))
            return "a launch in between uses the same buffers";
          continue;
        }
      }
      op->walk<WalkOrder::PreOrder>([&](Operation *nested) {
        why = whatForbids(nested, first);
        return why.empty() ? WalkResult::advance() : WalkResult::interrupt();
      });
      if (!why.empty())
        return why;
    }
    return "";
  }

  /// Whether only the group uses the buffer of this output.
  bool isDead(const LaunchGroup &group, const LaunchGroup::Output &output) const {
    auto alloc = output.view.root.getDefiningOp<AllocOp>();
    if (!alloc || hostir::isSymmetric(alloc.getType()) || group.reads(alloc))
      return false;
    SmallVector<Value> left = {output.view.root};
    while (!left.empty())
      for (Operation *user : left.pop_back_val().getUsers()) {
        if (isView(user))
          left.push_back(user->getResult(0));
        else if (!isa<DeallocOp>(user) &&
                 llvm::none_of(group.members, [&](auto &member) { return member.launch == user; }))
          return false;
      }
    return true;
  }

  /// The group's launch (null if its outputs are unused), and the number of removed buffers.
  std::pair<LaunchOp, size_t> rewrite(const LaunchGroup &group) {
    SmallVector<bool> isKept;
    llvm::SetVector<Value> dead;
    SmallVector<Value> outputs;
    for (const LaunchGroup::Output &output : group.outputs) {
      isKept.push_back(!isDead(group, output));
      if (isKept.back())
        outputs.push_back(output.view.view);
      else
        dead.insert(output.view.root);
    }
    LaunchOp fused = outputs.empty() ? LaunchOp() : createFused(group, isKept, outputs);
    for (LaunchGroup::Member member : group.members) {
      kernels.replaced.insert(member.kernel);
      member.launch.erase();
    }
    for (Value root : dead)
      eraseBuffer(root);
    return {fused, dead.size()};
  }

  LaunchOp createFused(const LaunchGroup &group, ArrayRef<bool> isKept, ValueRange outputs) {
    LaunchOp last = group.last();
    OpBuilder builder(last);
    Location loc = builder.getFusedLoc(llvm::map_to_vector(
        group.members, [](LaunchGroup::Member member) { return member.launch.getLoc(); }));
    KernelOp &kernel = kernels.fused[getFusedKey(group, isKept)];
    if (!kernel) {
      OpBuilder atModule(last->getParentOfType<ProgramOp>());
      kernel = buildFusedKernel(atModule, loc, group, isKept);
      kernel.setSymName(
          (last->getParentOfType<ProgramOp>().getSymName() + "." + getFusedName(group)).str());
      kernels.symbols.insert(kernel); // makes the name unique
    }
    SmallVector<Value> inputs =
        llvm::map_to_vector(group.inputs, [](const LaunchView &view) { return view.view; });
    auto fused = LaunchOp::create(builder, loc, FlatSymbolRefAttr::get(kernel.getSymNameAttr()),
                                  inputs, outputs, last.getStream());
    // Buffers that it reads must not be freed before it.
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (&op == fused)
        break;
      if (auto dealloc = dyn_cast<DeallocOp>(op); dealloc && group.touches(dealloc.getBuffer()))
        dealloc->moveAfter(fused);
    }
    return fused;
  }

  Block &block;
  Kernels &kernels;
  int64_t maxOperands, maxOps;
  bool rounds;
  LaunchViews views;
  std::vector<std::optional<LaunchGroup>> groups; ///< none: merged into a later one
  llvm::DenseMap<Operation *, size_t> groupOf;    ///< by launch
  llvm::DenseMap<Value, size_t> writer;           ///< the last group that writes a buffer
};

} // namespace

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct FuseLaunches : public hostir::impl::FuseLaunchesBase<FuseLaunches> {
  using FuseLaunchesBase::FuseLaunchesBase;

  void runOnOperation() override {
    Kernels kernels(getOperation());
    for (auto program : getOperation().getOps<ProgramOp>()) {
      if (program.getReferenceOf())
        continue;
      SmallVector<Block *> blocks;
      program.walk([&](Block *block) {
        if (!block->getOps<LaunchOp>().empty())
          blocks.push_back(block);
      });
      for (Block *block : blocks)
        fuse(*block, kernels, program.getDeterministic().has_value());
    }
    if (kernels.replaced.empty())
      return markAllAnalysesPreserved();
    removeUnused(kernels);
  }

  void fuse(Block &block, Kernels &kernels, bool rounds) {
    BlockFuser(block, kernels, maxOperands, maxOps, rounds)
        .run(
            [&](LaunchOp launch, size_t members, size_t buffers) {
              numFused += members - 1;
              numBuffers += buffers;
              if (log)
                logger(*this, launch) << "one launch of @" << launch.getKernel() << " in place of "
                                      << members << "; " << buffers << " buffers are gone";
            },
            [&](LaunchOp launch, StringRef why) {
              if (log)
                logger(*this, launch)
                    << "@" << launch.getKernel()
                    << " is not fused with the launch that it reads from: " << why;
            });
  }

  void removeUnused(Kernels &kernels) {
    llvm::SmallDenseSet<StringAttr> launched;
    getOperation().walk(
        [&](LaunchOp launch) { launched.insert(launch.getKernelAttr().getAttr()); });
    for (Operation *op : kernels.replaced)
      if (auto kernel = cast<KernelOp>(op);
          kernel.isPrivate() && !launched.contains(kernel.getSymNameAttr()))
        kernels.symbols.erase(kernel);
  }
};
} // namespace
