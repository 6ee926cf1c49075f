//===- CodeObjectTest.cpp - kernels as code objects of AMD GPUs -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What can be seen of a code object without a GPU: that it is the ELF file which HIP expects, and
// what it says of its kernels.
//
//===----------------------------------------------------------------------===//

#include "Hip/CodeObject.h"
#include "Translated.h"

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELF.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <map>

using namespace tandem;
using namespace tandem::test;

namespace {

using Elf = llvm::object::ELF64LEFile;

/// A program that launches @k on two inputs and an output.
std::string launched(const std::string &body, const std::string &type = "f32") {
  std::string memory = "memref<8x" + type + ">";
  return programText("%a: " + memory + ", %b: " + memory + ", %o: " + memory + " {hostir.result}",
                     "  hostir.launch @k ins(%a, %b : " + memory + ", " + memory +
                         ") outs(%o : " + memory + ") on %main\n") +
         "hostir.kernel @k(%a: " + type + ", %b: " + type + ") -> " + type + " {\n" + body + "}\n";
}

StreamProgramOptions forTarget(const std::string &target) {
  StreamProgramOptions options;
  options.target = target;
  return options;
}

struct Symbol {
  uint64_t address, size;
  unsigned type, visibility;
};

std::map<std::string, Symbol> dynamicSymbols(const Elf &elf) {
  std::map<std::string, Symbol> found;
  for (const auto &section : llvm::cantFail(elf.sections())) {
    if (section.sh_type != llvm::ELF::SHT_DYNSYM)
      continue;
    llvm::StringRef names = llvm::cantFail(elf.getStringTableForSymtab(section));
    for (const auto &symbol : llvm::cantFail(elf.symbols(&section)))
      found[llvm::cantFail(symbol.getName(names)).str()] = {
          symbol.st_value, symbol.st_size, symbol.getType(), symbol.getVisibility()};
  }
  return found;
}

/// `bytes` of memory at an address, as a loader would put them.
llvm::ArrayRef<uint8_t> loaded(const Elf &elf, uint64_t address, uint64_t bytes) {
  for (const auto &segment : llvm::cantFail(elf.program_headers()))
    if (segment.p_type == llvm::ELF::PT_LOAD && address >= segment.p_vaddr &&
        address + bytes <= segment.p_vaddr + segment.p_filesz)
      return {elf.base() + segment.p_offset + (address - segment.p_vaddr), bytes};
  return {};
}

template <typename T> T at(llvm::ArrayRef<uint8_t> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// "LLVM's AMDGPU usage guide", Kernel Descriptor.
void expectDescriptor(const Elf &elf, const std::string &kernel, uint32_t parameters,
                      unsigned waveSize) {
  std::map<std::string, Symbol> symbols = dynamicSymbols(elf);
  ASSERT_EQ(symbols.count(kernel), 1u);
  ASSERT_EQ(symbols.count(kernel + ".kd"), 1u);
  const Symbol &code = symbols[kernel], &descriptor = symbols[kernel + ".kd"];
  EXPECT_EQ(code.type, llvm::ELF::STT_FUNC);
  EXPECT_EQ(descriptor.type, llvm::ELF::STT_OBJECT);
  EXPECT_EQ(code.visibility, llvm::ELF::STV_PROTECTED);
  EXPECT_EQ(descriptor.size, 64u);
  EXPECT_GT(code.size, 0u);
  llvm::ArrayRef<uint8_t> bytes = loaded(elf, descriptor.address, 64);
  ASSERT_EQ(bytes.size(), 64u);
  EXPECT_EQ(at<uint32_t>(bytes, 0), 0u) << "bytes of memory that a block shares";
  EXPECT_GE(at<uint32_t>(bytes, 8), parameters) << "bytes of arguments, with hidden ones";
  EXPECT_EQ(descriptor.address + at<uint64_t>(bytes, 16), code.address);
  bool hasWaves32 = (at<uint16_t>(bytes, 56) >> 10) & 1;
  EXPECT_EQ(hasWaves32, waveSize == 32);
}

TEST(CodeObjects, AreForTheGpusThatTheTargetNames) {
  Translated t(launched("  %0 = math.exp %a : f32\n  %1 = math.tanh %0 : f32\n"
                        "  %2 = arith.divf %1, %b : f32\n  hostir.yield %2 : f32\n"),
               forTarget("hip-rccl:gfx942,gfx90a,gfx1100"));
  ASSERT_TRUE(t.ok) << t.errors;
  auto program = t.file->rankProgram(0);
  ASSERT_TRUE(program.ok()) << program.status().message();
  const sp::Kernel &kernel = *(*program)->data().kernels()->Get(0);
  struct {
    const char *name;
    uint32_t machine;
    unsigned waveSize;
  } const wanted[] = {{"gfx942", llvm::ELF::EF_AMDGPU_MACH_AMDGCN_GFX942, 64},
                      {"gfx90a", llvm::ELF::EF_AMDGPU_MACH_AMDGCN_GFX90A, 64},
                      {"gfx1100", llvm::ELF::EF_AMDGPU_MACH_AMDGCN_GFX1100, 32}};
  ASSERT_EQ(kernel.native()->size(), std::size(wanted));
  for (size_t i = 0; i < std::size(wanted); ++i) {
    SCOPED_TRACE(wanted[i].name);
    const sp::NativeCode &native = *kernel.native()->Get(static_cast<unsigned>(i));
    EXPECT_EQ(native.format(), sp::KernelFormat::amdgcn);
    EXPECT_EQ(native.target()->str(), wanted[i].name);
    std::string code(native.code()->begin(), native.code()->end());
    Elf elf = llvm::cantFail(Elf::create(code));
    EXPECT_EQ(elf.getHeader().e_type, llvm::ELF::ET_DYN);
    EXPECT_EQ(elf.getHeader().e_machine, llvm::ELF::EM_AMDGPU);
    EXPECT_EQ(elf.getHeader().e_ident[llvm::ELF::EI_OSABI], llvm::ELF::ELFOSABI_AMDGPU_HSA);
    EXPECT_EQ(elf.getHeader().e_ident[llvm::ELF::EI_ABIVERSION],
              llvm::ELF::ELFABIVERSION_AMDGPU_HSA_V5);
    EXPECT_EQ(elf.getHeader().e_flags & llvm::ELF::EF_AMDGPU_MACH, wanted[i].machine);
    // Extents, then a pointer and the strides of each of three operands; docs/kernels.md.
    auto parameters = gpu::readKernelParameters(code);
    ASSERT_TRUE(parameters.ok()) << parameters.status().message();
    EXPECT_EQ((*parameters)["rows"], std::vector<uint32_t>(2 + 3 * 3, 8));
    EXPECT_EQ((*parameters)["strided"], std::vector<uint32_t>(4 + 3 * 5, 8));
    expectDescriptor(elf, "rows", 11 * 8, wanted[i].waveSize);
    expectDescriptor(elf, "strided", 19 * 8, wanted[i].waveSize);
    auto own = gpu::selectCodeObject(code, wanted[i].name);
    EXPECT_TRUE(own.ok()) << own.status().message();
  }
}

/// Nothing of ROCm's libraries is called: the linker refuses what it cannot find.
TEST(CodeObjects, NeedNoLibrary) {
  for (const char *type : {"f32", "f16", "bf16"}) {
    std::string body, last = "%a";
    int number = 0;
    for (const char *op : {"math.erf", "math.erfc", "math.exp2", "math.expm1", "math.log",
                           "math.log10", "math.log1p", "math.log2", "math.rsqrt", "math.sin",
                           "math.cos", "math.sqrt", "math.round", "math.roundeven", "math.floor",
                           "math.ceil", "math.trunc", "math.absf", "arith.negf"}) {
      std::string next = "%" + std::to_string(number++);
      body += "  " + next + " = " + op + " " + last + " : " + type + "\n";
      last = next;
    }
    for (const char *op : {"math.powf", "arith.remf", "arith.maximumf", "arith.minimumf",
                           "arith.maxnumf", "arith.minnumf"}) {
      std::string next = "%" + std::to_string(number++);
      body += "  " + next + " = " + op + " " + last + ", %b : " + type + "\n";
      last = next;
    }
    Translated t(launched(body + "  hostir.yield " + last + " : " + type + "\n", type),
                 forTarget("hip-peer"));
    EXPECT_TRUE(t.ok) << type << ": " << t.errors;
  }
}

TEST(CodeObjects, AMissingLinkerIsAnError) {
  ASSERT_EQ(setenv("TANDEM_LLD", "/no/ld.lld", /*overwrite=*/1), 0);
  Translated t(launched("  %0 = arith.subf %b, %a : f32\n  hostir.yield %0 : f32\n"),
               forTarget("hip-rccl"));
  unsetenv("TANDEM_LLD");
  EXPECT_FALSE(t.ok);
  EXPECT_NE(t.errors.find("/no/ld.lld: "), std::string::npos) << t.errors;
}

} // namespace
