//===- GroupOrder.h - the order of stream groups -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_GROUPORDER_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_GROUPORDER_H

#include "StreamGroups.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Orders groups of a block by their dependences; among those that are free, by their first op.
/// Error at the block's op if they depend on each other in a circle.
FailureOr<std::vector<StreamGroup>> sortGroups(Block &block, std::vector<StreamGroup> groups);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_GROUPORDER_H
