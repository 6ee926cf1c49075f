//===- LinkCodeObject.cpp - objects for AMD GPUs become code objects -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The program ld.lld, not lld's library: the library keeps global state and is in a package of its
// own.
//
//===----------------------------------------------------------------------===//

#include "Code.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace mlir;

namespace tandem::target {

static constexpr unsigned kMostSeconds = 60;

/// Empty: there is none.
static std::string findLinker() {
  if (const char *given = std::getenv("TANDEM_LLD"); given && *given)
    return given;
  for (StringRef name : {"ld.lld-22", "ld.lld"}) {
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
    if (auto found = llvm::sys::findProgramByName(name, {TANDEM_LLVM_TOOLS, "/opt/rocm/llvm/bin"}))
      return *found;
  }
  return "";
}

FailureOr<std::string> linkCodeObject(StringRef object,
                                      llvm::function_ref<InFlightDiagnostic(const Twine &)> error) {
  std::string linker = findLinker();
  if (linker.empty())
    return error("code for AMD GPUs needs the linker ld.lld, which is not in PATH: install lld "
                 "(Debian's lld-22), or name it by TANDEM_LLD");
  llvm::SmallString<64> folder;
  if (std::error_code code = llvm::sys::fs::createUniqueDirectory("tandem-kernel", folder))
    return error("cannot make a folder for temporary files: " + code.message());
  llvm::scope_exit remove([&] { llvm::sys::fs::remove_directories(folder); });
  std::string input = (folder + "/kernel.o").str(), output = (folder + "/kernel.co").str();
  std::string messages = (folder + "/messages").str();
  std::error_code code;
  {
    llvm::raw_fd_ostream file(input, code);
    if (!code) {
      file << object;
      file.close();
      code = file.error();
      file.clear_error();
    }
  }
  if (code)
    return error("cannot write " + input + ": " + code.message());

  std::string reason;
  int status = llvm::sys::ExecuteAndWait(
      linker, {"ld.lld", "-shared", "--no-undefined", "-o", output, input}, std::nullopt,
      {StringRef(), StringRef(messages), StringRef(messages)}, kMostSeconds, 0, &reason);
  if (status != 0) {
    if (auto said = llvm::MemoryBuffer::getFile(messages); said && reason.empty())
      reason = (*said)->getBuffer().trim().str();
    return error(linker + ": " + (reason.empty() ? "exit status " + Twine(status) : reason));
  }
  auto linked = llvm::MemoryBuffer::getFile(output);
  if (!linked)
    return error(linker + " wrote no file: " + linked.getError().message());
  return (*linked)->getBuffer().str();
}

} // namespace tandem::target
