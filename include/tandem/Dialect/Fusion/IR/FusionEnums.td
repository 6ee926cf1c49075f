//===- FusionEnums.td - fusion enumerations -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file of its own, because tablegen writes every enumeration of the files that one includes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_FUSIONENUMS_TD
#define TANDEM_DIALECT_FUSION_IR_FUSIONENUMS_TD

include "mlir/IR/EnumAttr.td"

def Fusion_ScheduleSource : I32EnumAttr<"ScheduleSource", "where the schedule of a stream loop comes from", [
    I32EnumAttrCase<"Annotation", 0, "annotation">,
    I32EnumAttrCase<"Cost", 1, "cost">,
    I32EnumAttrCase<"Fallback", 2, "fallback">, I32EnumAttrCase<"Tuned", 3, "tuned">]> {
  let cppNamespace = "::tandem::fusion";
  let genSpecializedAttr = 0;
}

#endif // TANDEM_DIALECT_FUSION_IR_FUSIONENUMS_TD
