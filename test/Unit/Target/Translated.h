//===- Translated.h - translate text and look at the result -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_TARGET_TRANSLATED_H
#define TANDEM_TEST_UNIT_TARGET_TRANSLATED_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Dialect/Mesh/IR/Mesh.h"
#include "tandem/Program/Program.h"
#include "tandem/Support/LLVM.h"
#include "tandem/Target/StreamProgram/StreamProgram.h"

#include "tandem/Program/stream_program_generated.h"

namespace tandem::test {

/// Translates the program @p of a text and keeps what came of it.
class Translated {
public:
  explicit Translated(const std::string &text, tandem::StreamProgramOptions options = {}) {
    if (options.target.empty())
      options.target = "cpu-local";
    mlir::DialectRegistry registry;
    registry.insert<tandem::MeshDialect, tandem::fusion::FusionDialect,
                    tandem::hostir::HostIRDialect, mlir::arith::ArithDialect,
                    mlir::math::MathDialect, mlir::memref::MemRefDialect, mlir::scf::SCFDialect>();
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.printOpOnDiagnostic(false);
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      errors += diagnostic.str() + "\n";
      for (mlir::Diagnostic &note : diagnostic.getNotes())
        errors += "note: " + note.str() + "\n";
      return mlir::success();
    });
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::parseSourceString<mlir::ModuleOp>(text, &context, "test.mlir");
    if (!module)
      return;
    auto result = tandem::translateToStreamProgram(*module, "p", options, &stats);
    ok = mlir::succeeded(result);
    if (!ok)
      return;
    bytes = *result;
    auto opened = ProgramFile::fromMemory(bytes);
    if (opened)
      file = *opened;
    else
      errors += opened.status().message();
  }

  /// The text of a rank's program, or why it is refused.
  std::string dump(uint32_t rank) const {
    if (!file)
      return "no program: " + errors;
    auto program = file->rankProgram(rank);
    return program ? dumpProgram(**program) : "refused: " + program.status().message();
  }
  /// The commands alone, one a line, without names.
  std::string commands(uint32_t rank) const {
    std::string result;
    llvm::SmallVector<llvm::StringRef> lines;
    std::string text = dump(rank);
    llvm::StringRef(text).split(lines, '\n');
    for (llvm::StringRef line : lines)
      if (line.size() > 6 && llvm::isDigit(line[4]) && line[5] == ' ')
        result += line.drop_front(6).split(" \"").first.str() + "\n";
      else if (line.starts_with("refused") || line.starts_with("no program"))
        result += line.str();
    return result;
  }

  bool ok = false;
  std::string errors, bytes;
  tandem::StreamProgramStats stats;
  std::shared_ptr<const ProgramFile> file;
};

/// A program of `arguments` with a `body` on a mesh of `ranks` devices called #tp.
inline std::string programText(const std::string &arguments, const std::string &body,
                               const std::string &attributes = "{workers = 2 : i64}",
                               int ranks = 4) {
  return "#tp = #tandem.mesh<\"tp\", [\"x\" = " + std::to_string(ranks) + "]>\nhostir.program @p(" +
         arguments + ") attributes " + attributes +
         " {\n  %main = hostir.main_stream\n  %me = hostir.device_index #tp, \"x\"\n" + body +
         "}\n";
}

} // namespace tandem::test

#endif // TANDEM_TEST_UNIT_TARGET_TRANSLATED_H
