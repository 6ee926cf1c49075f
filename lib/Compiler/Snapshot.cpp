//===- Snapshot.cpp - tandem-snapshot -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/Passes.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace tandem {
#define GEN_PASS_DEF_TANDEMSNAPSHOT
#include "tandem/Compiler/Passes.h.inc"
} // namespace tandem

using namespace mlir;

namespace {

struct TandemSnapshot : public tandem::impl::TandemSnapshotBase<TandemSnapshot> {
  using TandemSnapshotBase::TandemSnapshotBase;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    SmallString<128> path(directory);
    std::error_code error = llvm::sys::fs::create_directories(path);
    llvm::sys::path::append(path,
                            llvm::formatv("{0,0+2}-{1}.mlir", number.getValue(), stage).str());
    if (!error) {
      // Written to a temporary file, then renamed.
      std::string text;
      llvm::raw_string_ostream(text) << getOperation();
      llvm::Error failed = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
        os << text << "\n";
        return llvm::Error::success();
      });
      error = llvm::errorToErrorCode(std::move(failed));
    }
    if (error) {
      // At the location only: an op would be printed with the whole module.
      emitError(getOperation()->getLoc())
          << "cannot write snapshot " << path << ": " << error.message();
      signalPassFailure();
    }
  }
};

} // namespace
