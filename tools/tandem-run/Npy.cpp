//===- Npy.cpp - tensors as NumPy files -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Npy.h"

#include "Files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace tandem;
using namespace tandem::run;

/// Names come from the program's file: they must not leave the folder. A name that an earlier entry
/// has taken (an input and a result may share theirs) is followed by a number.
static std::string fileName(const std::string &name, const nlohmann::json &entries) {
  std::string stem;
  for (char c : name)
    stem += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ? c : '_';
  if (stem.empty() || stem[0] == '.')
    stem = "_" + stem;
  std::string file = stem + ".npy";
  auto isTaken = [&](const nlohmann::json &entry) { return entry["file"] == file; };
  for (int i = 2; std::any_of(entries.begin(), entries.end(), isTaken); ++i)
    file = fmt::format("{}-{}.npy", stem, i);
  return file;
}

Expected<NpyFolder> NpyFolder::create(const std::string &path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    return Status(Code::Io, fmt::format("cannot make folder \"{}\": {}", path, error.message()));
  NpyFolder folder(path);
  folder.index = "[]";
  return folder;
}

Status NpyFolder::add(const std::string &name, bool isResult, const Tensor &tensor) {
  // By DType; NumPy has no bf16.
  static constexpr const char *descriptors[kNumDTypes] = {"<f4", "<f2", "<u2", "<i4",
                                                          "<f8", "<i8", "|i1", "|b1"};
  const char *descriptor = descriptors[static_cast<unsigned>(tensor.dtype)];
  std::string shape;
  for (int64_t extent : tensor.shape)
    shape += fmt::format("{},", extent);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descriptor, shape);
  // Magic, version 1.0 and length are 10 bytes; the data starts at a multiple of 64.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(header.size() & 0xff);
  head += static_cast<char>(header.size() >> 8);

  auto entries = nlohmann::json::parse(index);
  std::string file = fileName(name, entries);
  entries.push_back({{"name", name},
                     {"role", isResult ? "output" : "input"},
                     {"dtype", toString(tensor.dtype)},
                     {"shape", tensor.shape},
                     {"file", file}});
  index = entries.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string bytes = head + header;
  bytes.append(reinterpret_cast<const char *>(tensor.data.data()), tensor.data.size());
  return writeFile(path + "/" + file, bytes);
}

Status NpyFolder::finish() { return writeFile(path + "/index.json", index + "\n"); }
