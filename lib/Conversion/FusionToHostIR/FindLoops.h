//===- FindLoops.h - which ops of a block run in one stream loop -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_FINDLOOPS_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_FINDLOOPS_H

#include "StreamLoop.h"
#include "tandem/Support/LLVM.h"
#include <vector>

namespace tandem {

/// The loops to form in a block: what runs together by data flow and stream digits.
///
/// - Streamed ops: an op joins the loop of an operand if both are streamed alike (the slice that
///   an iteration reads is the slice that the same iteration of the producer wrote; its result may
///   have more stream digits, on dimensions that the operand does not have) and if no op outside of
///   the loop is between them. An op that combines over a dimension joins too if the loop runs
///   over that dimension: it accumulates. A reduction whose operand is sliced by receiver joins
///   what computes its operand. Gathers that feed one op are one loop if the same devices own
///   their slices, or if no slice has an owner.
/// - Ops without stream digits: a gather with the compute that could be sliced with it; a reduction
///   with the compute that makes its operand. These are the loops that slices can be chosen for. An
///   annotated reshard stays alone: its slices are the user's choice.
///
/// Two reshards with different annotations are never in one loop, nor a reshard with an annotated
/// one whose schedule could then not run the loop. Loops come in an order in which they can run: by
/// data flow and, of calls that read or write memory of the embedder, by the text. Every op is in
/// one loop; constants and the terminator are in none.
FailureOr<std::vector<StreamLoop>> findStreamLoops(Block &block);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_FINDLOOPS_H
