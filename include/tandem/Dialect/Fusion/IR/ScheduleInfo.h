//===- ScheduleInfo.h - the schedules that attributes may name -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect itself has no schedules. They are registered through an interface of the dialect, and
// `#fusion.schedule` is verified against them. docs/schedules.md, "Add a schedule".
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_SCHEDULEINFO_H
#define TANDEM_DIALECT_FUSION_IR_SCHEDULEINFO_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectInterface.h"
#include "tandem/Support/LLVM.h"

#include <optional>
#include <string>

namespace tandem::fusion {

/// An option of a schedule: `key = value` in `#fusion.schedule`.
struct ScheduleOption {
  enum class Kind {
    Integer,  ///< `streams = 2`; default 0
    Integers, ///< `merge = [1, 1, 2]`; default empty
    Word      ///< `order = xor`; default: the first of `words`
  };
  StringRef name;
  Kind kind;
  int64_t least = 0;              ///< least value of Integer and Integers
  SmallVector<StringRef> words{}; ///< accepted values of Word
};

/// What a loop moves.
enum class LoopKind { Gather, AllToAll, Reduction, AllReduce };

/// An option that has this word, or a number above `above`. Example: `by = sms`.
struct ScheduleChoice {
  StringRef option;
  StringRef word{};
  int64_t above = 0;

  bool isMade(mlir::DictionaryAttr options) const;
  /// "by = sms", or "'merge'".
  std::string str() const;
};

/// A row of the table of legal combinations: what may stand next to a choice. Read by the verifier
/// of attributes, by planning, by candidates and by docs/schedules.md.
struct ScheduleRule {
  ScheduleChoice choice;
  SmallVector<LoopKind, 4> loops{};         ///< that the choice works for; empty: all
  SmallVector<ScheduleChoice, 0> without{}; ///< that it excludes
  std::optional<ScheduleChoice> with{};     ///< that it needs
};

/// The choices that all schedules have in common (tandem-c/Schedules.def).
constexpr StringRef kScheduleChoices[] = {"order", "by", "compute", "sum"};

/// A schedule's name and options, and which of these go together.
struct ScheduleInfo {
  StringRef name;
  SmallVector<ScheduleOption, 0> options;
  SmallVector<ScheduleRule, 0> rules{};
  /// Those of kScheduleChoices that it has, and their words. The registry adds them.
  SmallVector<ScheduleOption, 0> choices{};

  /// The choice of this name, or null.
  const ScheduleOption *getChoice(StringRef choice) const;
};

/// The registered schedules, an interface of the fusion dialect. Without it (in a tool that only
/// reads the dialect) all names and options are accepted.
class ScheduleRegistry : public mlir::DialectInterface::Base<ScheduleRegistry> {
public:
  explicit ScheduleRegistry(mlir::Dialect *dialect) : Base(dialect) {}

  virtual ArrayRef<ScheduleInfo> getInfos() const = 0;
  /// Null if no schedule has this name.
  const ScheduleInfo *lookup(StringRef name) const;
  /// All names, sorted.
  SmallVector<StringRef> getNames() const;

  /// The context's registry, or null.
  static const ScheduleRegistry *get(MLIRContext *context);
};

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_SCHEDULEINFO_H
