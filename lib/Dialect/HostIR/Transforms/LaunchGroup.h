//===- LaunchGroup.h - launches that become one -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_LAUNCHGROUP_H
#define TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_LAUNCHGROUP_H

#include "StridedBox.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem::hostir {

/// An operand of a launch: its view, and what that is a view of.
struct LaunchView {
  Value view, root;
  std::optional<StridedBox> box;

  /// Whether both take the same elements in the same order.
  bool isSame(const LaunchView &other) const;
};

/// Views by value; each is looked at once.
using LaunchViews = llvm::DenseMap<Value, LaunchView>;
const LaunchView &getLaunchView(LaunchViews &views, Value view);

/// Launches of one block and stream that run as one, at the place of the last.
class LaunchGroup {
public:
  /// An operand of the fused kernel. An input of a member is either one of `inputs` or what an
  /// earlier member computes.
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

  /// Members in the text's order, which is also the order in which they compute.
  SmallVector<Member> members;
  SmallVector<LaunchView> inputs; ///< distinct
  SmallVector<Output> outputs;    ///< of all members

  Value stream() const { return hostir::getStream(last()); }
  LaunchOp last() const { return members.back().launch; }
  int64_t numOps() const;
  bool reads(Value root) const;
  bool writes(Value root) const;
  bool touches(Value root) const { return reads(root) || writes(root); }
  bool isSymmetric() const;

  /// The group of one launch.
  static LaunchGroup create(LaunchOp launch, KernelOp kernel, LaunchViews &views);

  /// `first` and then `second` as one group, if one of the second's inputs is an output of the
  /// first and each of their other operands agrees with that. Nothing otherwise, and `why` says so.
  static std::optional<LaunchGroup> merge(const LaunchGroup &first, const LaunchGroup &second,
                                          StringRef &why);
};

/// A kernel that computes what the members do, with those outputs that `isKept`; without a name.
KernelOp buildFusedKernel(OpBuilder &builder, Location loc, const LaunchGroup &group,
                          ArrayRef<bool> isKept);

/// What the group computes, as text: groups that agree in it share a kernel.
std::string getFusedKey(const LaunchGroup &group, ArrayRef<bool> isKept);

/// A name that says what it computes: "addf_tanh_and_3_more".
std::string getFusedName(const LaunchGroup &group);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_LAUNCHGROUP_H
