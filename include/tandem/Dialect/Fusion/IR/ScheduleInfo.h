//===- ScheduleInfo.h - the schedules that attributes may name -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect knows no schedule. Those of a context are registered with it, as an interface of the
// dialect, and `#fusion.schedule` is verified against them. docs/schedules.md, "Add a schedule".
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_SCHEDULEINFO_H
#define TANDEM_DIALECT_FUSION_IR_SCHEDULEINFO_H

#include "mlir/IR/DialectInterface.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// An option of a schedule: `key = value` in `#fusion.schedule`.
struct ScheduleOption {
  enum class Kind {
    Integer,  ///< `streams = 2`; 0 if it is not given
    Integers, ///< `merge = [1, 1, 2]`; empty if it is not given
    Word      ///< `order = xor`; the first of `words` if it is not given
  };
  StringRef name;
  Kind kind;
  int64_t least = 0;              ///< of Integer and Integers
  SmallVector<StringRef> words{}; ///< of Word: those there are
};

/// What the attribute of a schedule is verified against.
struct ScheduleInfo {
  StringRef name;
  SmallVector<ScheduleOption, 0> options;
  /// Whether the schedule takes a reshard that is several rows of the reshard table at once: then
  /// `fusion-insert-reshards` does not write it out as a sequence.
  bool takesSequences = false;
};

/// The registered schedules, an interface of the fusion dialect. A context without it (a tool that
/// only reads the dialect) accepts all names and options.
class ScheduleRegistry : public mlir::DialectInterface::Base<ScheduleRegistry> {
public:
  explicit ScheduleRegistry(mlir::Dialect *dialect) : Base(dialect) {}

  /// Null if there is none of the name.
  virtual const ScheduleInfo *lookup(StringRef name) const = 0;
  /// All names, sorted.
  virtual SmallVector<StringRef> getNames() const = 0;

  /// That of a context, or null.
  static const ScheduleRegistry *get(MLIRContext *context);
};

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_SCHEDULEINFO_H
