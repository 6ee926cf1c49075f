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

/// All lives of the buffers of one alloc: one per evaluation. An alloc on a worker stream has one
/// place per worker, any other has one place.
struct BufferLife {
  AllocOp alloc;
  /// Order of first evaluation among the program's allocs.
  Position firstAlloc = 0;
  /// What is ordered before every one of the lives begins (minimum over lives).
  Clock start;
  /// The last accesses, over all lives; -1 where a stream has none.
  Clock end;
  /// The last access in the text; null if there is none.
  Operation *lastAccess = nullptr;
  /// Places in the text (pre-order) of the alloc and of the end of what holds the last access in
  /// the alloc's block.
  int64_t textBegin = 0, textEnd = 0;
  /// Streams that the buffers were allocated on: `firstStream` ... `lastStream`. All workers, if
  /// one was unknown.
  int firstStream = 0, lastStream = 0;
  bool everAllocated = false;
  /// Every access of a life is on the stream that allocated it.
  bool isOnOneStream = true;
  /// Every life ends with a dealloc in the alloc's block and on its stream, which is ordered after
  /// all accesses; `textEnd` is that place unless all are on one stream anyway.
  bool isBracketed = false;
  /// The worker of some life depends on the rank.
  bool hasUnknownStream = false;
  /// An access that is not ordered after its alloc; null if there is none.
  Operation *unordered = nullptr;
  /// A life may begin before the last one at its place has ended.
  bool overlapsItself = false;

  bool variesInStream() const { return firstStream != lastStream; }
  /// What its stream runs behind `textEnd` is ordered after all of a life.
  bool endsInText() const { return isOnOneStream || isBracketed; }
};

/// Lives by alloc, in order of first evaluation. Allocs that are never evaluated are missing.
using BufferLives = llvm::MapVector<Operation *, BufferLife>;

/// Evaluates `program`; fails with a diagnostic where ProgramWalk does.
FailureOr<BufferLives> computeBufferLives(ProgramOp program);
/// The same by a walk of the caller's, which serves its listener, too.
FailureOr<BufferLives> computeBufferLives(ProgramOp program, ProgramWalk &walk,
                                          ProgramWalk::Listener &other);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_BUFFERLIVES_H
