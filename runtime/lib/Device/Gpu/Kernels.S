//===- Kernels.S - the kernels of GPUs ------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What nvcc and clang make of Kernels.cu; for HIP an offload bundle with a code object per kind of
// GPU. Not inline in C++: ccache does not see what .incbin reads, and would keep an old object.
//
//===----------------------------------------------------------------------===//

    .macro kernels name, file
    .balign 4096 // code objects of HIP are aligned to pages
    .globl \name
    .hidden \name
\name:
    .incbin "\file"
    .globl \name\()End
    .hidden \name\()End
\name\()End:
    .byte 0
    .endm

    .section .rodata
#ifdef TANDEM_CUDA_KERNELS
    kernels tandemCudaKernels, TANDEM_CUDA_KERNELS
#endif
#ifdef TANDEM_HIP_KERNELS
    kernels tandemHipKernels, TANDEM_HIP_KERNELS
#endif
    .section .note.GNU-stack, "", %progbits
