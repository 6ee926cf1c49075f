//===- FakeNvtx.cpp - a profiler that counts ranges ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// NVTX_INJECTION64_PATH names the library that this is part of: NVTX calls it before the first
// range.

#include "FakeCuda.h"

#if __has_include(<nvtx3/nvToolsExt.h>)

#include <nvtx3/nvToolsExt.h>

static int pushed(nvtxDomainHandle_t, const nvtxEventAttributes_t *attributes) {
  ++tandem::fake::number(std::string("ranges.") + attributes->message.ascii);
  ++tandem::fake::number("open-ranges");
  return 0;
}
static int popped(nvtxDomainHandle_t) {
  --tandem::fake::number("open-ranges");
  return 0;
}

// NOLINTNEXTLINE(readability-identifier-naming): the name that NVTX looks for
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t getTable) {
  const auto *callbacks =
      static_cast<const NvtxExportTableCallbacks *>(getTable(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
      size <= NVTX_CBID_CORE2_DomainRangePop)
    return 0;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(pushed);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(popped);
  return 1;
}

#endif
