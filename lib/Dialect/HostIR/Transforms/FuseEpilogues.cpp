//===- FuseEpilogues.cpp - matmuls write where the launch after them does -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaunchGroup.h"
#include "PassLog.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Dominance.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Dialect/HostIR/Transforms/Passes.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace tandem::hostir {
#define GEN_PASS_DEF_FUSEEPILOGUES
#include "tandem/Dialect/HostIR/Transforms/Passes.h.inc"
} // namespace tandem::hostir

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

/// Bytes at whose multiples the rows of fast matmuls begin.
static constexpr int64_t kRowBytes = 16;

/// Whether a matmul can write rows there as well as to memory of its own.
static bool isWrittenWell(MemRefType output, MemRefType product) {
  int64_t offset = 0, ownOffset = 0;
  SmallVector<int64_t> strides, own;
  if (failed(output.getStridesAndOffset(strides, offset)) ||
      failed(product.getStridesAndOffset(own, ownOffset)) || strides.back() != 1)
    return false;
  int64_t row = strides[strides.size() - 2];
  return row == own[own.size() - 2] ||
         (!ShapedType::isDynamic(row) &&
          row * output.getElementTypeBitWidth() % (8 * kRowBytes) == 0);
}

namespace {
/// A matmul or gated matmul, and the launch that can compute in place on its result.
struct Pair {
  Operation *product;
  SmallVector<MatmulOp> matmuls; ///< of which the product is made
  LaunchOp launch;
  Value result, root; ///< what the launch reads of the product, and its buffer
  Value output;       ///< of the launch
};
} // namespace

/// Whether only the two use the buffer of the product.
static bool isOnlyUsedBy(const Pair &pair) {
  llvm::SmallPtrSet<Operation *, 8> users{pair.launch};
  for (MatmulOp matmul : pair.matmuls)
    users.insert(matmul);
  SmallVector<Value> left = {pair.root};
  while (!left.empty())
    for (Operation *user : left.pop_back_val().getUsers()) {
      if (isView(user))
        left.push_back(user->getResult(0));
      else if (!users.contains(user) && !isa<DeallocOp>(user))
        return false;
    }
  return true;
}

/// The launch after the op on its stream; what is in between has no effect, or ends buffers there.
static LaunchOp getNextLaunch(Operation *op, Value stream) {
  auto isSkipped = [&](Operation *next) {
    auto dealloc = dyn_cast<DeallocOp>(next);
    return isMemoryEffectFree(next) || isa<AllocOp>(next) ||
           (dealloc && isSameStream(dealloc.getStream(), stream));
  };
  Operation *next = op->getNextNode();
  while (next && isSkipped(next))
    next = next->getNextNode();
  auto launch = dyn_cast_or_null<LaunchOp>(next);
  return launch && launch.getOutputs().size() == 1 && isSameStream(launch.getStream(), stream)
             ? launch
             : LaunchOp();
}

/// Whether the matmuls can write the launch's output: nothing that they or the launch read is
/// there.
static bool canWriteOutput(Pair &pair) {
  Value place = getViewRoot(pair.output);
  auto type = cast<MemRefType>(pair.output.getType()),
       own = cast<MemRefType>(pair.result.getType());
  if (type.getElementType() != own.getElementType() || type.getShape() != own.getShape() ||
      !isWrittenWell(type, own))
    return false;
  for (MatmulOp matmul : pair.matmuls)
    for (Value read : {matmul.getLhs(), matmul.getRhs(), matmul.getBias()})
      if (read && (getViewRoot(read) == place || getViewRoot(read) == pair.root))
        return false;
  return llvm::none_of(pair.launch.getInputs(), [&](Value read) {
    Value from = getViewRoot(read);
    return from == place || (read != pair.result && from == pair.root);
  });
}

static bool isOwnMemory(Value root) {
  auto alloc = root.getDefiningOp<AllocOp>();
  return alloc && !hostir::isSymmetric(alloc.getType());
}

static std::optional<Pair> findPair(MatmulOp matmul) {
  if (matmul.getAccumulate())
    return std::nullopt;
  Value product = matmul.getOutput();
  Pair pair{
      matmul, {matmul}, getNextLaunch(matmul, matmul.getStream()), product, getViewRoot(product),
      Value()};
  if (!pair.launch || !isOwnMemory(pair.root) ||
      !llvm::is_contained(pair.launch.getInputs(), product) || !isOnlyUsedBy(pair))
    return std::nullopt;
  pair.output = pair.launch.getOutputs().front();
  return canWriteOutput(pair) ? std::optional(pair) : std::nullopt;
}

/// The launch reads the whole buffer that the parts write, and writes one of the same type.
static std::optional<Pair> findPair(GatedMatmulOp gated) {
  Pair pair{gated, {}, getNextLaunch(gated, gated.getStream()), Value(), Value(), Value()};
  if (!pair.launch)
    return std::nullopt;
  gated->walk([&](MatmulOp matmul) { pair.matmuls.push_back(matmul); });
  pair.result = pair.root = getViewRoot(pair.matmuls.front().getOutput());
  pair.output = pair.launch.getOutputs().front();
  // The kernels need rows at multiples of 16 bytes, which the caller's memory may not have.
  if (!isOwnMemory(pair.root) || !isOwnMemory(getViewRoot(pair.output)) ||
      pair.root.getType() != pair.output.getType() ||
      cast<MemRefType>(pair.root.getType()).getRank() < 2 ||
      !llvm::is_contained(pair.launch.getInputs(), pair.root) || !isOnlyUsedBy(pair) ||
      !canWriteOutput(pair))
    return std::nullopt;
  Operation *made = pair.output.getDefiningOp();
  if (!DominanceInfo().properlyDominates(pair.output, gated) &&
      !(isa<AllocOp>(made) && DominanceInfo().properlyDominates(made->getOperand(0), gated)))
    return std::nullopt;
  return pair;
}

/// After what the launch's output is made of. Buffers that it reads must not end before it.
static void moveToLaunch(MatmulOp matmul, LaunchOp launch) {
  for (Operation *op = launch->getPrevNode(); op != matmul;) {
    Operation *before = op->getPrevNode();
    if (isa<DeallocOp>(op))
      op->moveAfter(launch);
    op = before;
  }
  matmul->moveBefore(launch);
}

static void rewrite(Pair &pair) {
  if (auto matmul = dyn_cast<MatmulOp>(pair.product)) {
    moveToLaunch(matmul, pair.launch);
    matmul.getOutputMutable().assign(pair.output);
    for (OpOperand &input : pair.launch.getInputsMutable())
      if (input.get() == pair.result)
        input.set(pair.output);
    return eraseBuffer(pair.root);
  }
  Operation *made = pair.output.getDefiningOp();
  if (made && made->getBlock() == pair.product->getBlock() && !made->isBeforeInBlock(pair.product))
    made->moveBefore(pair.product);
  for (Operation *user : llvm::make_early_inc_range(pair.root.getUsers()))
    if (isa<DeallocOp>(user))
      user->erase();
  pair.root.replaceAllUsesWith(pair.output);
  pair.root.getDefiningOp()->erase();
}

namespace {
struct FuseEpilogues : public hostir::impl::FuseEpiloguesBase<FuseEpilogues> {
  using FuseEpiloguesBase::FuseEpiloguesBase;

  void runOnOperation() override {
    ProgramOp program = getOperation();
    if (program.getReferenceOf() || program.getDeterministic()) // these have no epilogues
      return markAllAnalysesPreserved();
    SmallVector<Operation *> products;
    program.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<MatmulOp, GatedMatmulOp>(op))
        products.push_back(op);
      // The parts of a gated matmul are no matmuls of their own.
      return isa<GatedMatmulOp>(op) ? WalkResult::skip() : WalkResult::advance();
    });
    for (Operation *product : products) {
      auto gated = dyn_cast<GatedMatmulOp>(product);
      std::optional<Pair> pair = gated ? findPair(gated) : findPair(cast<MatmulOp>(product));
      if (!pair)
        continue;
      rewrite(*pair);
      ++numFused;
      if (log)
        logger(*this, pair->launch) << "@" << pair->launch.getKernel() << " computes in place";
    }
  }
};
} // namespace
