//===- Compile.cpp - .mlir as input -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compile.h"

#include "tandem/Program/Files.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

using namespace tandem;
using namespace tandem::run;

namespace {

bool parseSize(const std::string &text, int64_t &size) {
  char *end = nullptr;
  size = std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == 0 && size >= 0;
}

bool parseMesh(const CompileRequest &request, compiler::CompileOptions &options,
               std::string &error) {
  for (const std::string &entry : request.mesh) {
    size_t equals = entry.find('=');
    int64_t size = 0;
    if (equals == 0 || equals == std::string::npos || !parseSize(entry.substr(equals + 1), size)) {
      error = "--mesh: expected AXIS=SIZE, found \"" + entry + "\"\n";
      return false;
    }
    options.mesh.push_back({entry.substr(0, equals), size});
  }
  return true;
}

bool parseShapes(const CompileRequest &request, compiler::CompileOptions &options,
                 std::string &error) {
  for (const std::string &entry : request.shapes) {
    size_t equals = entry.find('=');
    bool good = equals != 0 && equals != std::string::npos;
    std::vector<int64_t> shape;
    std::istringstream extents(good ? entry.substr(equals + 1) : "");
    for (std::string extent; good && std::getline(extents, extent, 'x');) {
      shape.push_back(-1);
      good = (extent == "?" && options.bound > 0) || parseSize(extent, shape.back());
    }
    if (!good) {
      error = "--shape: expected ARGUMENT=8x16, found \"" + entry + "\"\n";
      return false;
    }
    options.shapes.push_back({entry.substr(0, equals), shape});
  }
  return true;
}

/// An axis written as `"x" = ?` in a text.
struct OpenAxis {
  std::string name;
  bool continues; ///< the axis before it is open too, and of the same mesh
};

/// The open axes of a file in their order, each name once.
std::vector<OpenAxis> openAxes(const std::string &path) {
  std::string text;
  if (auto file = readWhole(path)) // else the compiler says why not
    text = std::move(*file);
  std::vector<OpenAxis> axes;
  size_t last = std::string::npos; // where the open axis before ends
  for (size_t at = text.find('?'); at != std::string::npos; at = text.find('?', at + 1)) {
    size_t end = text.find_last_not_of(" \t", at - 1);
    if (at == 0 || end == std::string::npos || text[end] != '=')
      continue;
    end = text.find_last_not_of(" \t", end - 1);
    if (end == std::string::npos || end == 0 || text[end] != '"')
      continue;
    size_t begin = text.find_last_of('"', end - 1);
    if (begin == std::string::npos)
      continue;
    std::string name = text.substr(begin + 1, end - begin - 1);
    bool continues =
        last != std::string::npos && text.find_first_not_of(", \t\n", last + 1) == begin;
    last = at;
    if (std::none_of(axes.begin(), axes.end(),
                     [&](const OpenAxis &axis) { return axis.name == name; }))
      axes.push_back({std::move(name), continues});
  }
  return axes;
}

} // namespace

bool run::hasCompiler() { return true; }

std::vector<std::string> run::targetNames() { return compiler::targetNames(); }

CompiledProgram run::compileProgram(const CompileRequest &request) {
  CompiledProgram result;
  compiler::CompileOptions options = request.options;
  uint32_t ranks = options.numRanks;
  if (!parseMesh(request, options, result.errors) || !parseShapes(request, options, result.errors))
    return result;
  if (request.mesh.empty() && ranks)
    for (const OpenAxis &axis : openAxes(request.path)) {
      options.mesh.push_back({axis.name, ranks});
      if (!axis.continues)
        continue;
      uint32_t perNode = request.ranksPerNode ? request.ranksPerNode : ranks;
      options.mesh.back().second = perNode;
      options.mesh[options.mesh.size() - 2].second = ranks / perNode;
    }
  compiler::CompileResult compiled = compiler::compileFile(request.path, options);
  result.ok = compiled.ok;
  if (!result.ok)
    result.errors = compiled.errorText();
  result.bytes = std::move(compiled.output);
  return result;
}
