//===- KernelLanguage.h - what Kernels.cu needs of a GPU's language -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nvcc compiles Kernels.cu as CUDA, clang compiles it as HIP: by its builtins alone, so no header
// and no device library of ROCm is needed. A warp is AMD's wavefront.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_KERNELLANGUAGE_H
#define TANDEM_LIB_DEVICE_GPU_KERNELLANGUAGE_H

#include <cstdint>

#if defined(__HIP__)

#define __device__ __attribute__((device))
#define __global__ __attribute__((global, amdgpu_flat_work_group_size(1, 512)))
#define __shared__ __attribute__((shared))
/// A parameter that is read in place.
#define TANDEM_PARAMETER const
/// A kernel whose blocks have so many threads, of the 512 that all may have.
#define TANDEM_BLOCK_OF(threads)

namespace tandem::gpu {

using Half = _Float16;
using Bfloat16 = __bf16;
using Word64 = unsigned __attribute__((ext_vector_type(2)));
using Word128 = unsigned __attribute__((ext_vector_type(4)));

__device__ inline unsigned threadNumber() { return __builtin_amdgcn_workitem_id_x(); }
__device__ inline unsigned blockNumber() { return __builtin_amdgcn_workgroup_id_x(); }
__device__ inline unsigned blockThreads() { return __builtin_amdgcn_workgroup_size_x(); }
__device__ inline unsigned gridBlocks() {
  return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x();
}
__device__ inline unsigned warpThreads() { return __builtin_amdgcn_wavefrontsize(); }
__device__ inline void syncBlock() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/// `value` of the thread `distance` lanes above; of a lane that is not there, any.
template <typename T> __device__ T fromLane(T value, unsigned distance) {
  static_assert(sizeof(T) % 4 == 0, "moved in words");
  unsigned lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
  auto from = static_cast<int>((lane + distance) * 4); // modulo the lanes there are
  int words[sizeof(T) / 4];
  __builtin_memcpy(words, &value, sizeof value);
  for (int &word : words)
    word = __builtin_amdgcn_ds_bpermute(from, word);
  __builtin_memcpy(&value, words, sizeof value);
  return value;
}

__device__ inline float halfToFloat(Half x) { return static_cast<float>(x); }
__device__ inline float bfloat16ToFloat(Bfloat16 x) { return static_cast<float>(x); }
__device__ inline Half halfFromFloat(float x) { return static_cast<Half>(x); }
__device__ inline Bfloat16 bfloat16FromFloat(float x) { return static_cast<Bfloat16>(x); }

// Words that other GPUs or the host read and write meanwhile.
template <typename T> __device__ T loadShared(const T *at) {
  return __hip_atomic_load(at, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
/// What was written before the value that it reads is visible to the thread afterwards.
__device__ inline uint64_t acquireShared(const uint64_t *at) {
  return __hip_atomic_load(at, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}
template <typename T> __device__ void storeShared(T *at, T value) {
  __hip_atomic_store(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
template <typename T> __device__ void raiseShared(T *at, T value) {
  __hip_atomic_fetch_max(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
/// Two words, each written and read whole.
__device__ inline void storePair(uint64_t *at, uint64_t a, uint64_t b) {
  storeShared(at, a);
  storeShared(at + 1, b);
}
__device__ inline void loadPair(const uint64_t *at, uint64_t &a, uint64_t &b) {
  a = loadShared(at);
  b = loadShared(at + 1);
}
/// The old value of a word of this GPU.
__device__ inline uint64_t addDevice(uint64_t *at, uint64_t value) {
  return __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
__device__ inline void fenceSystem() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }
/// A fence: a thread that reads what this thread writes next also reads what this thread has read
/// before.
__device__ inline void publishShared() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, ""); }
__device__ inline void pauseThread() { __builtin_amdgcn_s_sleep(2); } // 128 clocks
/// An address in global memory, which does not show where it comes from.
template <typename T> __device__ T *asGlobal(T *at) { return at; }
/// Word `i` of a parameter, where threads read different ones.
__device__ inline Word128 loadParameter(const void *parameter, unsigned i) {
  return static_cast<const Word128 *>(parameter)[i];
}

} // namespace tandem::gpu

#else // CUDA

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define TANDEM_PARAMETER const __grid_constant__
#define TANDEM_BLOCK_OF(threads) __launch_bounds__(threads)

namespace tandem::gpu {

using Half = __half;
using Bfloat16 = __nv_bfloat16;
using Word64 = uint2;
using Word128 = uint4;

__device__ inline unsigned threadNumber() { return threadIdx.x; }
__device__ inline unsigned blockNumber() { return blockIdx.x; }
__device__ inline unsigned blockThreads() { return blockDim.x; }
__device__ inline unsigned gridBlocks() { return gridDim.x; }
__device__ constexpr unsigned warpThreads() { return 32; }
__device__ inline void syncBlock() { __syncthreads(); }

template <typename T> __device__ T fromLane(T value, unsigned distance) {
  return __shfl_down_sync(~0u, value, distance);
}

__device__ inline float halfToFloat(Half x) { return __half2float(x); }
__device__ inline float bfloat16ToFloat(Bfloat16 x) { return __bfloat162float(x); }
__device__ inline Half halfFromFloat(float x) { return __float2half_rn(x); }
__device__ inline Bfloat16 bfloat16FromFloat(float x) { return __float2bfloat16_rn(x); }

/// An address in global memory, which does not show where it comes from.
template <typename T> __device__ T *asGlobal(T *at) {
  __builtin_assume(__isGlobal(at));
  return at;
}
template <typename T> __device__ T loadShared(const T *at) {
  return *static_cast<const volatile T *>(at);
}
/// What was written before the value that it reads is visible to the thread afterwards.
__device__ inline uint64_t acquireShared(const uint64_t *at) {
  unsigned long long value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}
template <typename T> __device__ void storeShared(T *at, T value) {
  *static_cast<volatile T *>(at) = value;
}
template <typename T> __device__ void raiseShared(T *at, T value) {
  atomicMax_system(asGlobal(at), value);
}
/// Two words, each written and read whole, at a multiple of 16 bytes.
__device__ inline void storePair(uint64_t *at, uint64_t a, uint64_t b) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(a), "l"(b) : "memory");
}
__device__ inline void loadPair(const uint64_t *at, uint64_t &a, uint64_t &b) {
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(at) : "memory");
}
__device__ inline uint64_t addDevice(uint64_t *at, uint64_t value) {
  return atomicAdd(asGlobal(reinterpret_cast<unsigned long long *>(at)), value);
}
__device__ inline void fenceSystem() { __threadfence_system(); }
/// A fence: a thread that reads what this thread writes next also reads what this thread has read
/// before.
__device__ inline void publishShared() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
__device__ inline void pauseThread() { __nanosleep(100); }
/// Word `i` of a parameter, where threads read different ones. As a constant, it would be read one
/// thread after the other.
__device__ inline Word128 loadParameter(const void *parameter, unsigned i) {
  Word128 word;
  asm volatile("ld.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
               : "l"(static_cast<const Word128 *>(parameter) + i));
  return word;
}

} // namespace tandem::gpu

#endif

#endif // TANDEM_LIB_DEVICE_GPU_KERNELLANGUAGE_H
