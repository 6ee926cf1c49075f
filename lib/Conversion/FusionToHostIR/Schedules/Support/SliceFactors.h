//===- SliceFactors.h - the slices that schedules try -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_SLICEFACTORS_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_SLICEFACTORS_H

#include "../../Schedule.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// A slice per owner of a gather, or per device that gets a slice of a reduce-scatter; both for an
/// all-to-all. Example: the gather of 16 rows over 4 devices is cut into 4 slices of 4 rows.
SmallVector<fusion::StreamFactor> getOwnerFactor(fusion::ReshardOp op);
/// 2 and 4 slices per owner or receiver, if there are at most 16 of these: one slice is too coarse
/// to hide the transfer that comes first or last.
SmallVector<fusion::StreamFactor> getFineOwnerFactors(fusion::ReshardOp op);
/// 1, 2, 4 and 8 slices for each device along each dimension of an all-reduce, if there are at most
/// 16 devices: each device reduces its slices and hands them out. Not with rows of less
/// than `leastRow` bytes, which copy engines do not move.
SmallVector<fusion::StreamFactor> getAllReduceFactors(fusion::ReshardOp op, int64_t leastRow);
/// One slice of the rows for each device of an all-reduce.
SmallVector<fusion::StreamFactor> getAllReduceRows(fusion::ReshardOp op);
/// 2, 4 and 8 slices along each dimension of a gather or reduction.
SmallVector<fusion::StreamFactor> getRangeFactors(fusion::ReshardOp op);

/// A loop's reshards as `Candidate::slices` numbers them: in the order of the loop op, while
/// `loop.reshards()` begins with those that need nothing of the loop.
SmallVector<fusion::ReshardOp> getNumberedReshards(const StreamLoop &loop);

/// Appends `schedule` with the factors of each reshard of a loop that has no slices yet.
void addSliced(const StreamLoop &loop, fusion::ScheduleAttr schedule,
               function_ref<SmallVector<fusion::StreamFactor>(fusion::ReshardOp)> getFactors,
               SmallVectorImpl<Candidate> &candidates);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_SLICEFACTORS_H
