//===- FusionOutlineReference.cpp - fusion-outline-reference -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassLog.h"
#include "Retype.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"

namespace tandem::fusion {
#define GEN_PASS_DEF_FUSIONOUTLINEREFERENCE
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace tandem::fusion

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// Whether any tensor in the function has axes.
static bool hasAxes(func::FuncOp function) {
  auto decided = [](Type type) { return getAxes(type) != nullptr; };
  if (llvm::any_of(function.getArgumentTypes(), decided) ||
      llvm::any_of(function.getResultTypes(), decided))
    return true;
  return function
      .walk([&](Operation *op) {
        return llvm::any_of(op->getResultTypes(), decided) ? WalkResult::interrupt()
                                                           : WalkResult::advance();
      })
      .wasInterrupted();
}

static void eraseAxes(Value value) {
  if (auto type = dyn_cast<RankedTensorType>(value.getType()))
    retype(value, eraseParallelAxes(type));
}

/// Erases the axes of `twin`, a clone.
static void makeWhole(func::FuncOp twin) {
  SmallVector<ReshardOp> reshards;
  for (Value argument : twin.getArguments())
    eraseAxes(argument);
  twin.walk([&](Operation *op) {
    for (Value result : op->getResults())
      eraseAxes(result);
    if (auto reshard = dyn_cast<ReshardOp>(op))
      reshards.push_back(reshard);
  });
  for (ReshardOp reshard : reshards) {
    reshard.replaceAllUsesWith(reshard.getInput());
    reshard.erase();
  }
  updateSignature(twin);
}

namespace {
struct FusionOutlineReferencePass
    : public fusion::impl::FusionOutlineReferenceBase<FusionOutlineReferencePass> {
  using FusionOutlineReferenceBase::FusionOutlineReferenceBase;

  void runOnOperation() override {
    PassLog logger("fusion-outline-reference", log);
    SymbolTable symbols(getOperation());
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      if (!function.isPublic() || function.isExternal() ||
          function->hasAttr(kReferenceOfAttrName) || !hasAxes(function))
        continue;
      std::string name = function.getSymName().str() + "__reference";
      if (Operation *other = symbols.lookup(name)) {
        auto of = other->getAttrOfType<FlatSymbolRefAttr>(kReferenceOfAttrName);
        if (of && of.getValue() == function.getSymName())
          continue;
        (function.emitOpError() << "expected the symbol @" << name
                                << " to be free for the unsharded reference, found it taken")
                .attachNote(other->getLoc())
            << "taken here";
        return signalPassFailure();
      }
      func::FuncOp twin = function.clone();
      twin.setSymName(name);
      twin.setPrivate();
      twin->setAttr(kReferenceOfAttrName, FlatSymbolRefAttr::get(function));
      makeWhole(twin);
      symbols.insert(twin, std::next(function->getIterator()));
      ++numReferences;
      logger(function.getLoc(),
             [&](raw_ostream &os) { os << "created the unsharded reference @" << name; });
    }
  }
};
} // namespace
