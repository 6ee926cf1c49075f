//===- LaunchGroup.h - launches that run as one -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_LAUNCHGROUP_H
#define TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_LAUNCHGROUP_H

#include "StridedBox.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <string>

namespace tandem::hostir {

/// An operand of a launch: its view, and the buffer under it.
struct LaunchView {
  mlir::Value view, root;
  std::optional<StridedBox> box;

  /// Whether both access the same elements in the same order.
  bool isSame(const LaunchView &other) const;
};

/// Views by value, analysed once.
using LaunchViews = llvm::DenseMap<mlir::Value, LaunchView>;

/// Launches of one block and stream that run as one, in place of the last.
class LaunchGroup {
public:
  /// The source of a member's input: one of `inputs`, or a result of an earlier member.
  struct Source {
    bool isInput;
    unsigned member, number; ///< a member's result; an input's number
  };
  struct Member {
    LaunchOp launch;
    KernelOp kernel;
    SmallVector<Source> sources; ///< one per input
  };
  struct Output {
    LaunchView view;
    unsigned member, number;
  };

  /// Members in text order, which is also the order of computation.
  SmallVector<Member> members;
  SmallVector<LaunchView> inputs; ///< distinct
  SmallVector<Output> outputs;    ///< of all members

  mlir::Value stream() const { return hostir::getStream(last()); }
  LaunchOp last() const { return members.back().launch; }

  int64_t numOps() const {
    int64_t count = 0;
    for (Member member : members)
      count += static_cast<int64_t>(member.kernel.getBody().front().getOperations().size()) - 1;
    return count;
  }

  bool reads(mlir::Value root) const {
    return llvm::any_of(inputs, [&](const LaunchView &view) { return view.root == root; });
  }

  bool writes(mlir::Value root) const {
    return llvm::any_of(outputs, [&](const Output &output) { return output.view.root == root; });
  }

  bool touches(mlir::Value root) const { return reads(root) || writes(root); }

  bool isSymmetric() const {
    auto isSymmetricView = [](const LaunchView &view) {
      return hostir::isSymmetric(view.view.getType());
    };
    return llvm::any_of(inputs, isSymmetricView) ||
           llvm::any_of(outputs, [&](const Output &o) { return isSymmetricView(o.view); });
  }

  /// The group of one launch.
  static LaunchGroup create(LaunchOp launch, KernelOp kernel, LaunchViews &views);

  /// `first` and `second` as one group, if an input of the second is an output of the first and all
  /// other operands allow it. Otherwise none, with the reason in `why`.
  static std::optional<LaunchGroup> merge(const LaunchGroup &first, const LaunchGroup &second,
                                          StringRef &why);
};

/// A kernel of all members with the outputs in `isKept`; without a name.
KernelOp buildFusedKernel(mlir::OpBuilder &builder, mlir::Location loc, const LaunchGroup &group,
                          ArrayRef<bool> isKept);
/// The group's computation as text: groups with equal texts share a kernel.
std::string getFusedKey(const LaunchGroup &group, ArrayRef<bool> isKept);
/// A descriptive name: "addf_tanh_and_3_more".
std::string getFusedName(const LaunchGroup &group);

/// Erases a buffer and its views, which only ends of its live range use.
void eraseBuffer(mlir::Value root);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_LAUNCHGROUP_H
