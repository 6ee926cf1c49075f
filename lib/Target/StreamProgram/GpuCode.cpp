//===- GpuCode.cpp - PTX and code objects of lowered GPU modules -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Code.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/ROCDL/ROCDLToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

#include <mutex>

using namespace mlir;

namespace tandem::target {

/// Of the code objects: ROCm 5.6 and later load version 5.
static constexpr uint32_t kCodeObjectVersion = 500;

/// The two backends that are needed.
static void initializeBackends() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
  });
}

static std::unique_ptr<llvm::TargetMachine> makeTargetMachine(const GpuArchitecture &architecture) {
  initializeBackends();
  llvm::Triple triple(architecture.isAmd() ? "amdgcn-amd-amdhsa" : "nvptx64-nvidia-cuda");
  // PTX ISA 8.0 belongs to CUDA 12.0.
  std::string features =
      architecture.isAmd() ? "+wavefrontsize" + std::to_string(architecture.waveSize) : "+ptx80";
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  // A code object is loaded at any address.
  std::optional<llvm::Reloc::Model> relocations;
  if (architecture.isAmd())
    relocations = llvm::Reloc::PIC_;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, architecture.name, features, llvm::TargetOptions(), relocations));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

FailureOr<std::string> translateToNative(Operation *gpuModule,
                                         const GpuArchitecture &architecture) {
  MLIRContext *context = gpuModule->getContext();
  registerBuiltinDialectTranslation(*context);
  registerGPUDialectTranslation(*context);
  registerLLVMDialectTranslation(*context);
  registerNVVMDialectTranslation(*context);
  registerROCDLDialectTranslation(*context);
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(gpuModule, llvmContext, "kernel");
  if (!module)
    return gpuModule->emitError("could not be translated to LLVM IR");
  std::unique_ptr<llvm::TargetMachine> machine = makeTargetMachine(architecture);
  if (!machine)
    return gpuModule->emitError("this LLVM has no backend for ") << architecture.name;
  module->setTargetTriple(machine->getTargetTriple());
  module->setDataLayout(machine->createDataLayout());
  if (architecture.isAmd()) {
    module->addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", kCodeObjectVersion);
    // Descriptors refer to their kernels, which nothing else may define.
    for (llvm::Function &function : *module)
      if (function.getCallingConv() == llvm::CallingConv::AMDGPU_KERNEL)
        function.setVisibility(llvm::GlobalValue::ProtectedVisibility);
  }
  optimize(*module, *machine);
  llvm::SmallString<0> code;
  llvm::raw_svector_ostream os(code);
  llvm::legacy::PassManager codegen;
  auto type = architecture.isAmd() ? llvm::CodeGenFileType::ObjectFile
                                   : llvm::CodeGenFileType::AssemblyFile;
  if (machine->addPassesToEmitFile(codegen, os, nullptr, type))
    return gpuModule->emitError("this LLVM writes no code for ") << architecture.name;
  codegen.run(*module);
  if (!architecture.isAmd())
    return code.str().str();
  return linkCodeObject(code, [&](const Twine &error) { return gpuModule->emitError(error); });
}

} // namespace tandem::target
