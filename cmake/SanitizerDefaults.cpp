//===- SanitizerDefaults.cpp - options of sanitized binaries ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every tool and test of a sanitized build links this, so that it runs the same from ctest, lit and
// a shell. The variables ASAN_OPTIONS, ... still override each option.
//
//===----------------------------------------------------------------------===//

#include <cstdlib>

extern "C" {

// The installed MLIR is not instrumented: what it allocates from an arena that our code has
// poisoned stays poisoned.
const char *__asan_default_options() {
  return "allow_user_poisoning=0:detect_stack_use_after_return=1:strict_string_checks=1";
}

const char *__ubsan_default_options() { return "print_stacktrace=1"; }

const char *__tsan_default_options() { return "second_deadlock_stack=1"; }

// oneDNN is not instrumented: the locks of its caches are made by atomics that the sanitizer does
// not see.
// The C library frees the thread-local memory of a thread that ends while it is detached.
// UCX destroys a lock when the process ends, though its own thread may still use it: where a call
// of UCX hung, nothing has ended that thread.
const char *__tsan_default_suppressions() {
  return "called_from_lib:libdnnl.so\nrace:_dl_deallocate_tls\nrace:pthread_rwlock_destroy\n";
}

} // extern "C"

namespace {
/// UCX patches the code of mmap and its kin, over the sanitizer's own interceptors. It is loaded
/// later, so it sees this.
struct KeepUcxFromPatching {
  KeepUcxFromPatching() { setenv("UCX_MEM_MMAP_HOOK_MODE", "none", /*overwrite=*/0); }
} keepUcxFromPatching;
} // namespace
