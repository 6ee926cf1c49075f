//===- OrderAxes.h - the order of grid axes that split a dimension -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_SHARDTOFUSION_ORDERAXES_H
#define TANDEM_LIB_CONVERSION_SHARDTOFUSION_ORDERAXES_H

#include "Layouts.h"

namespace tandem::shardfusion {

/// Where several grid axes split a dimension, finds which is outermost: from the annotations and
/// from the collectives, whose axes are the innermost ones. Fails, with an error at the place, if
/// an argument's order does not follow, or if two orders contradict each other.
LogicalResult orderAxes(mlir::func::FuncOp function, DenseMap<Value, Layout> &layouts,
                        const DenseMap<Value, SmallVector<GridAxes>> &annotations);

} // namespace tandem::shardfusion

#endif // TANDEM_LIB_CONVERSION_SHARDTOFUSION_ORDERAXES_H
