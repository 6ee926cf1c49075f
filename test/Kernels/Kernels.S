//===- Kernels.S - the kernels of an embedder, for GPUs -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The PTX of Kernels.cu.
// Not inline in C++: ccache does not see what .incbin reads, and would keep an old object.
//
//===----------------------------------------------------------------------===//

    .section .rodata
    .globl tandemTestKernels
    .hidden tandemTestKernels
tandemTestKernels:
    .incbin TANDEM_TEST_KERNELS_PTX
    .globl tandemTestKernelsEnd
    .hidden tandemTestKernelsEnd
tandemTestKernelsEnd:
    .byte 0
    .section .note.GNU-stack, "", %progbits
