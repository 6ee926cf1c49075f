//===- nccl.h - what the stand-in library needs of its names ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of NCCL that FakeNccl.cpp uses. cuda.h in this folder says why.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_SUPPORT_NOCUDA_NCCL_H
#define TANDEM_TEST_SUPPORT_NOCUDA_NCCL_H

#include <cuda.h>

#define TANDEM_CCL_STREAM CUstream
#include "Channel/Ccl/Declarations.h"

using cudaStream_t = CUstream;

#define NCCL_VERSION_CODE 21800

#endif // TANDEM_TEST_SUPPORT_NOCUDA_NCCL_H
