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

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

using namespace mlir;

namespace tandem::target {

static constexpr std::chrono::seconds kMost(60);

/// Empty: there is none.
static std::string findLinker() {
  if (const char *given = std::getenv("TANDEM_LLD"); given && *given) {
    auto found = llvm::sys::findProgramByName(given);
    return found ? *found : given;
  }
  for (StringRef name : {"ld.lld-22", "ld.lld"}) {
    if (auto found = llvm::sys::findProgramByName(name, {TANDEM_LLVM_TOOLS, "/opt/rocm/llvm/bin"}))
      return *found;
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
  }
  return "";
}

/// Runs a program. The exit status; negative if it could not run or took too long. The time limit
/// of llvm::sys::Wait would take the process's SIGALRM, which may be the embedder's.
static int execute(StringRef program, ArrayRef<StringRef> arguments, StringRef messages,
                   std::string &reason) {
  bool fails = false;
  llvm::sys::ProcessInfo process = llvm::sys::ExecuteNoWait(
      program, arguments, std::nullopt, {StringRef(), messages, messages}, 0, &reason, &fails);
  if (fails)
    return -1;
  auto end = std::chrono::steady_clock::now() + kMost;
  bool late = false;
  while (true) {
    llvm::sys::ProcessInfo ended = llvm::sys::Wait(process, 0, &reason, nullptr, /*Polling=*/true);
    if (ended.Pid != 0)
      return late ? -1 : ended.ReturnCode;
    if (!late && std::chrono::steady_clock::now() > end) {
      late = true;
      reason = "no end after 60 s";
      ::kill(process.Pid, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
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
  llvm::scope_exit remove([&] {
    std::error_code stays = llvm::sys::fs::remove_directories(folder);
    (void)stays;
  });
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
  int status = execute(linker, {"ld.lld", "-shared", "--no-undefined", "-o", output, input},
                       messages, reason);
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
