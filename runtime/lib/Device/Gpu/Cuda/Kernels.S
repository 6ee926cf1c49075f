//===- Kernels.S - the kernels of device cuda -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What nvcc makes of Kernels.cu.
// Not inline in C++: ccache does not see what .incbin reads, and would keep an old object.
//
//===----------------------------------------------------------------------===//

    .section .rodata
    .balign 64
    .globl tandemCudaKernels
    .hidden tandemCudaKernels
tandemCudaKernels:
    .incbin TANDEM_CUDA_KERNELS
    .globl tandemCudaKernelsEnd
    .hidden tandemCudaKernelsEnd
tandemCudaKernelsEnd:
    .byte 0
    .section .note.GNU-stack, "", %progbits
