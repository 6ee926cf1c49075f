//===- BufferLives.h - when each buffer is used -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_BUFFERLIVES_H
#define TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_BUFFERLIVES_H

#include "tandem/Dialect/HostIR/Evaluate/ProgramWalk.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/MapVector.h"

namespace tandem::hostir {

/// All live ranges of an alloc's buffers, one per evaluation. An alloc on a worker stream has one
/// slot per worker, others have one slot.
struct BufferLife {
  AllocOp alloc;
  /// Position of its first evaluation among the allocs.
  Position firstAlloc = 0;
  /// The commands ordered before every live range (minimum over the live ranges).
  Clock start;
  /// The last accesses of all live ranges; -1 for streams without.
  Clock end;
  /// The last access in the text, or null.
  Operation *lastAccess = nullptr;
  /// Pre-order numbers of the alloc, and of the end of the op in the alloc's block that contains
  /// the last access.
  int64_t textBegin = 0, textEnd = 0;
  /// Streams of the allocs: `firstStream` ... `lastStream`; all workers if one is unknown.
  int firstStream = 0, lastStream = 0;
  bool everAllocated = false;
  /// Every access is on the stream that allocated the live range.
  bool isOnOneStream = true;
  /// Every live range ends with a dealloc in the alloc's block and on its stream, ordered after all
  /// accesses. `textEnd` is then the dealloc, unless isOnOneStream.
  bool isBracketed = false;
  /// The worker of some live range depends on the rank.
  bool hasUnknownStream = false;
  /// An access that is not ordered after its alloc, or null.
  Operation *unordered = nullptr;
  /// A live range may begin before the previous one of its slot has ended.
  bool overlapsItself = false;

  bool variesInStream() const { return firstStream != lastStream; }
  /// Commands of its stream after `textEnd` are ordered after the whole live range.
  bool endsInText() const { return isOnOneStream || isBracketed; }
};

/// Live ranges by alloc, in order of first evaluation, without allocs that are never evaluated.
using BufferLives = llvm::MapVector<Operation *, BufferLife>;

/// Evaluates `program` with the caller's walk, which also calls `other`; fails with a diagnostic if
/// the walk does.
FailureOr<BufferLives> computeBufferLives(ProgramOp program, ProgramWalk &walk,
                                          ProgramWalk::Listener &other);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_BUFFERLIVES_H
