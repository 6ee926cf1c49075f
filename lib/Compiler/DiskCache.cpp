//===- DiskCache.cpp - compiled programs that outlive a process -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file is one line of text and the bytes of the program:
//
//   tandem-cache 2 <hash of what follows this word> <ranks> <commands> <messages> <loops>\n
//
// then the key, three texts per loop, each with its length, and the bytes of the program.
//
//===----------------------------------------------------------------------===//

#include "DiskCache.h"

#include "tandem/Program/Files.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <dlfcn.h>

using namespace tandem::compiler;
using llvm::StringRef;

static constexpr StringRef kMagic = "tandem-cache 2 ";

static std::string hashOf(StringRef text) {
  return llvm::toHex(llvm::BLAKE3::hash<32>(llvm::arrayRefFromStringRef(text)), /*LowerCase=*/true);
}

/// Identifies this build of the compiler; version() is equal for two builds of one version. Empty
/// if unknown.
static std::string buildIdentity() {
  static const char anchor = 0;
  Dl_info info;
  llvm::sys::fs::file_status status;
  if (!::dladdr(&anchor, &info) || !info.dli_fname ||
      llvm::sys::fs::status("/proc/self/exe", status))
    return "";
  // In a static executable dli_fname is argv[0], which may not be a path to it.
  llvm::sys::fs::file_status library;
  if (!llvm::sys::fs::status(info.dli_fname, library))
    status = library;
  auto time = status.getLastModificationTime().time_since_epoch().count();
  return version() + " " + std::to_string(status.getSize()) + " " + std::to_string(time);
}

/// A text with its length: it may contain anything.
static std::string withLength(StringRef text) {
  return std::to_string(text.size()) + ":" + text.str();
}

/// False if there is no such text.
static bool readWithLength(StringRef &from, std::string &text) {
  size_t size = 0;
  if (from.consumeInteger(10, size) || !from.consume_front(":") || size > from.size())
    return false;
  text = from.take_front(size).str();
  from = from.drop_front(size);
  return true;
}

DiskCache::DiskCache(std::string folder, std::string_view text) : directory(std::move(folder)) {
  if (directory.empty())
    return;
  std::string build = buildIdentity();
  if (build.empty())
    directory.clear();
  scope = hashOf(build + "\n" + std::string(text));
}

std::string DiskCache::path(const std::string &key) const {
  llvm::SmallString<128> result(directory);
  llvm::sys::path::append(result, hashOf(scope + key) + ".tsp-cache");
  return std::string(result);
}

CompileResult DiskCache::load(const std::string &key) const {
  CompileResult result;
  if (directory.empty())
    return result;
  auto entry = readWhole(path(key), kMostFileBytes); // of a program
  if (!entry)
    return result;
  StringRef rest = *entry;
  if (!rest.consume_front(kMagic))
    return result;
  auto [hash, content] = rest.split(' ');
  if (hash != hashOf(content))
    return result;
  auto [header, bytes] = content.split('\n');
  size_t loops = 0;
  std::string found;
  if (header.consumeInteger(10, result.numRanks) || !header.consume_front(" ") ||
      header.consumeInteger(10, result.numCommands) || !header.consume_front(" ") ||
      header.consumeInteger(10, result.numMessages) || !header.consume_front(" ") ||
      header.consumeInteger(10, loops) || !header.empty() || !bytes.consume_front(scope) ||
      !readWithLength(bytes, found) || found != key)
    return CompileResult();
  for (size_t i = 0; i < loops; ++i) {
    Certificate::Loop &loop = result.loops.emplace_back();
    if (!readWithLength(bytes, loop.reshards) || !readWithLength(bytes, loop.what) ||
        !readWithLength(bytes, loop.source))
      return CompileResult();
  }
  result.output = bytes.str();
  result.ok = true;
  return result;
}

void DiskCache::store(const std::string &key, const CompileResult &result) const {
  if (directory.empty() || !result.ok || !result.diagnostics.empty() ||
      llvm::sys::fs::create_directories(directory))
    return;
  std::string content = std::to_string(result.numRanks) + " " + std::to_string(result.numCommands) +
                        " " + std::to_string(result.numMessages) + " " +
                        std::to_string(result.loops.size()) + "\n" + scope + withLength(key);
  for (const Certificate::Loop &loop : result.loops)
    content += withLength(loop.reshards) + withLength(loop.what) + withLength(loop.source);
  content += result.output;
  std::string hash = hashOf(content);
  // Without it, the next process compiles again.
  writeFile(path(key), kMagic.str() + hash + " " + content).ignore();
}
