//===- SourcePosition.h - where an op was written ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_SOURCEPOSITION_H
#define TANDEM_SUPPORT_SOURCEPOSITION_H

#include "mlir/IR/Location.h"
#include "llvm/ADT/Twine.h"

#include <string>

namespace tandem {

/// The source position of a location: the innermost call, the first of several. Null if unknown.
inline mlir::FileLineColLoc getSourcePosition(mlir::Location loc) {
  mlir::FileLineColLoc position;
  loc->walk([&](mlir::Location part) {
    position = mlir::dyn_cast<mlir::FileLineColLoc>(part);
    return position ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
  });
  return position;
}

/// The same as "file.mlir:12:5"; "" if unknown.
inline std::string getSourceText(mlir::Location loc) {
  mlir::FileLineColLoc position = getSourcePosition(loc);
  if (!position)
    return "";
  return (position.getFilename().strref() + ":" + llvm::Twine(position.getLine()) + ":" +
          llvm::Twine(position.getColumn()))
      .str();
}

} // namespace tandem

#endif // TANDEM_SUPPORT_SOURCEPOSITION_H
