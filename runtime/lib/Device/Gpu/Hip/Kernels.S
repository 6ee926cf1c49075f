//===- Kernels.S - the kernels of device hip ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What clang makes of Kernels.cu: an offload bundle with a code object per kind of GPU.
// Not inline in C++: ccache does not see what .incbin reads, and would keep an old object.
//
//===----------------------------------------------------------------------===//

    .section .rodata
    .balign 4096 // code objects in it are aligned to pages
    .globl tandemHipKernels
    .hidden tandemHipKernels
tandemHipKernels:
    .incbin TANDEM_HIP_KERNELS
    .globl tandemHipKernelsEnd
    .hidden tandemHipKernelsEnd
tandemHipKernelsEnd:
    .byte 0
    .section .note.GNU-stack, "", %progbits
