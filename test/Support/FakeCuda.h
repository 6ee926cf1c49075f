//===- FakeCuda.h - a driver of GPUs that are threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_SUPPORT_FAKECUDA_H
#define TANDEM_TEST_SUPPORT_FAKECUDA_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cuda.h>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace tandem::fake {

/// Between two looks at memory that another thread will change.
inline void nap() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }
inline uint64_t load(const void *at) {
  return __atomic_load_n(static_cast<const uint64_t *>(at), __ATOMIC_ACQUIRE);
}

using Work = std::function<void()>;
/// Does `work` when it is its turn in the stream, or puts it into the graph that is captured.
void add(CUstream stream, Work work);
/// To be called by such work: for the stream's events, so much time has passed.
void pass(CUstream stream, std::chrono::nanoseconds time);
/// By name: what a launch with these arguments does.
const std::map<std::string, std::function<Work(void **)>> &knownKernels();
/// The bytes of the parameters that PTX declares for an entry; none if it has no such entry.
std::vector<size_t> declaredSizes(const std::string &ptx, const std::string &entry);
/// A function of a module. Without declared sizes: those that the kernel of this name takes, none
/// if it is not known.
CUfunction functionOf(const std::string &name, std::vector<size_t> declared);
const std::string &nameOf(CUfunction function);
const std::vector<size_t> &argumentSizes(CUfunction function);

/// The value of a float of 8 bits: 4 bits of exponent are f8E4M3FN, 5 are f8E5M2.
float fromFp8(uint8_t bits, int exponentBits);

/// A knob or a counter; at first what TANDEM_FAKE_<NAME> says, else 0. Tests of the same process
/// find it by the symbol tandemFakeNumber. Knobs:
///   no-capture-on   GPU (from 1) whose streams cannot be captured
///   no-export-on    GPU (from 1) whose memory cannot be exported
///   no-import-on    GPU (from 1) that cannot import memory
///   no-small-host-memory-on  GPU (from 1) that has no pieces of less than 4096 bytes
///   memory          bytes that one allocation may have at most; 0: any
///   fail-on         GPU (from 1) that fails, with its copy number fail-after and all later ones
///   no-values       there are no stream memory operations
///   processors      SMs of a GPU, which blocks of kernels then have for themselves; 0: 132
///   no-atomics      those of a GPU on another one's memory are not atomic
///   no-update       graphs cannot be updated
///   late-copies     milliseconds that a thread is kept where it asks for a copy of 1 to 2 KiB
///   product-time.<algorithm>  microseconds that a product takes longer; there are three
///   product-cost.<algorithm>  microseconds that events say it takes longer, which it does not
///   product-power.<algorithm>  more of them, unless the first numbers of a matrix are equal
///   fp8-refused     there are no products of 8-bit floats
///   fp8-batch-refused  and none of more than one matrix
///   grouped-refused  there are kernels for grouped matmuls, but not for this one
///   hold-copies-on  GPU (from 1) whose copies wait until the knob changes
///   queries-lock    queries of events and streams wait for a call that has the GPU for itself
///   cupti-no-calls  CUPTI cannot record calls of the driver
///   cupti-dropped   records that CUPTI says it has dropped
///   nccl-no-init-on   rank (from 1) that does not come where a communicator is made
///   nccl-no-split-on  rank (from 1) that does not come to a split
///   nccl-hold       rank (from 1) whose calls to NCCL stay there, on the host
///   nccl-error-on   rank (from 1) whose communicators have an asynchronous error
///   nccl-no-finalize-on  rank (from 1) whose children cannot be finalised
///   <fault>-<call>  rank or GPU (from 1) that has a fault in a call. Faults: hang (until the knob
///                   changes), fail, stop, kill. Calls: init (its communicator is made); where
///                   it gives something back, root (its communicator is destroyed), abort (it is
///                   aborted), child (that of its commands), window (is deregistered), unmap
///                   (memory of another process), host (memory of the host is freed)
/// Counters: graph-launches, captures (begun), instantiations and patches (changed nodes) of
/// graphs, launches.<kernel>, products.<algorithm>, fp8-plans (asked for products of
/// 8-bit floats, and got), grouped-loads and grouped-runs (of kernels for grouped matmuls), events
/// (that there are), waits (kernels that wait now), raises and plain-raises (of
/// signals by kernels, as maxima and as plain stores), high-streams and low-streams (made with the
/// highest and the lowest priority), ranges.<name> and open-ranges (of NVTX); of NCCL, nccl-threads
/// (for groups of calls), nccl-held (calls now), nccl-live (communicators), nccl-ids (of new ones),
/// nccl-misuse (of such as are gone, or aborted while somebody is in them), nccl-orphans (children
/// that outlive what was destroyed).
std::atomic<int64_t> &number(const std::string &name);

/// Has the fault of `who` in such a call. True: it fails.
bool meetsFault(const std::string &call, int64_t who);

} // namespace tandem::fake

extern "C" std::atomic<int64_t> *tandemFakeNumber(const char *name);

#endif // TANDEM_TEST_SUPPORT_FAKECUDA_H
