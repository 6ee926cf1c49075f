//===- CostModelImpl.h - the machine behind the cost model -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kept out of the public header: beside ::tandem, the name tandem is ambiguous in sources
// that use namespace mlir.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_ANALYSIS_COSTMODELIMPL_H
#define TANDEM_LIB_ANALYSIS_COSTMODELIMPL_H

#include "tandem/Analysis/CostModel.h"
#include "tandem/Replay/Predict.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

struct CostModel::Implementation {
  ::tandem::machine::Machine machine;
  Options options;
};

struct LoopPlan::Implementation {
  ::tandem::machine::Plan plan;
};

} // namespace tandem

#endif // TANDEM_LIB_ANALYSIS_COSTMODELIMPL_H
