//===- TargetsTest.cpp - the table of targets -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Translated.h"

#include <gtest/gtest.h>

using namespace tandem::test;
using namespace tandem;

namespace {

TEST(Targets, TableOfCapabilities) {
  const TargetInfo *ucx = lookupTarget("cpu-ucx"), *local = lookupTarget("cpu-local");
  ASSERT_TRUE(ucx && local);
  EXPECT_TRUE(ucx->has(hostir::Capability::TwoSided));
  EXPECT_TRUE(ucx->has(hostir::Capability::OneSided));
  EXPECT_FALSE(ucx->has(hostir::Capability::Collectives));
  EXPECT_TRUE(local->has(hostir::Capability::Collectives));
  EXPECT_TRUE(ucx->architectures.empty());
  EXPECT_TRUE(architecturesOf("cpu-ucx").empty());
  const TargetInfo *nccl = lookupTarget("cuda-nccl");
  ASSERT_TRUE(nccl);
  EXPECT_EQ(capabilityNames(nccl->capabilities), "two_sided, collectives");
  ASSERT_EQ(architecturesOf("cuda-nccl").size(), 1u);
  EXPECT_EQ(architecturesOf("cuda-nccl")[0].name, "sm_90");
  EXPECT_EQ(lookupTarget("cpu"), nullptr);
  EXPECT_EQ(unknownTargetMessage("cpu"),
            "unknown target \"cpu\", expected cpu-ucx or cpu-local or "
            "cuda-ucx or cuda-nccl or cuda-peer or hip-ucx or hip-rccl or "
            "hip-peer");
  EXPECT_EQ(capabilityNames(local->capabilities), "two_sided, one_sided, collectives");
}

TEST(Targets, Architectures) {
  const TargetInfo *rccl = lookupTarget("hip-rccl"), *peer = lookupTarget("hip-peer");
  ASSERT_TRUE(rccl && peer);
  EXPECT_EQ(capabilityNames(rccl->capabilities), "two_sided, collectives");
  EXPECT_EQ(capabilityNames(peer->capabilities), "two_sided, one_sided, collectives");
  auto list = [](llvm::StringRef target) {
    std::string text;
    for (const GpuArchitecture &each : architecturesOf(target))
      text += (each.name + " " + llvm::Twine(each.waveSize) + (each.isAmd() ? " amd;" : ";")).str();
    return text;
  };
  EXPECT_EQ(list("hip-rccl"), "gfx942 64 amd;");
  EXPECT_EQ(list("hip-peer:gfx1100,gfx90a"), "gfx1100 32 amd;gfx90a 64 amd;");
  EXPECT_EQ(list("cuda-peer:sm_90"), "sm_90 32;");
  EXPECT_EQ(lookupTarget("hip-rccl:gfx90a"), rccl);
  for (const char *wrong : {"hip-rccl:", "hip-rccl:gfx90a,", "hip-rccl:sm_90", "cpu-ucx:gfx942"})
    EXPECT_EQ(lookupTarget(wrong), nullptr) << wrong;
  EXPECT_EQ(
      unknownTargetMessage("hip-rccl:gfx90a,gfx1"),
      "unknown architecture \"gfx1\" of target hip-rccl, expected gfx942 or gfx90a or gfx1100");
  EXPECT_EQ(unknownTargetMessage("cpu-ucx:gfx942"),
            "target cpu-ucx has no GPU, found architecture \"gfx942\"");
}

/// The numbers of the three lists are one.
TEST(Targets, NumbersAgreeWithTheSchema) {
  using C = hostir::Capability;
  auto bit = [](C c) { return 1u << static_cast<unsigned>(c); };
  EXPECT_EQ(bit(C::TwoSided), static_cast<unsigned>(::tandem::sp::Capability::two_sided));
  EXPECT_EQ(bit(C::OneSided), static_cast<unsigned>(::tandem::sp::Capability::one_sided));
  EXPECT_EQ(bit(C::Collectives), static_cast<unsigned>(::tandem::sp::Capability::collectives));
  for (uint32_t i = 0; auto kind = hostir::symbolizeCollectiveKind(i); ++i)
    EXPECT_EQ(hostir::stringifyCollectiveKind(*kind).str(),
              ::tandem::sp::EnumNameCollectiveKind(static_cast<::tandem::sp::CollectiveKind>(i)));
  for (uint32_t i = 0; auto kind = symbolizeReduceKind(i); ++i)
    EXPECT_EQ(stringifyReduceKind(*kind).str(),
              ::tandem::sp::EnumNameReduceOp(static_cast<::tandem::sp::ReduceOp>(i)));
}

std::string withChannel(const std::string &capabilities, const std::string &body) {
  return programText("%in: memref<4xf32>, %out: memref<4x4xf32> {hostir.result}",
                     "  %ch = hostir.channel \"c\" over #tp [\"x\"] can [" + capabilities + "]\n" +
                         body);
}
const std::string kGather = "  hostir.collective all_gather %in to %out via %ch on %main : "
                            "memref<4xf32> to memref<4x4xf32>\n";

TEST(Targets, ChannelMustGetAlong) {
  StreamProgramOptions options;
  options.target = "cpu-ucx";
  Translated t(withChannel("collectives", kGather), options);
  EXPECT_FALSE(t.ok);
  EXPECT_EQ(t.errors, "'hostir.program' op channel \"c\" needs collectives, which target cpu-ucx "
                      "does not have (it has two_sided, one_sided)\n");
}

TEST(Targets, OnlyWhatAChannelIsUsedForIsAskedFor) {
  StreamProgramOptions options;
  options.target = "cpu-ucx";
  Translated t(withChannel("collectives, two_sided",
                           "  %row = memref.subview %out[0, 0] [1, 4] [1, 1] : memref<4x4xf32> to "
                           "memref<4xf32, strided<[1]>>\n"
                           "  hostir.group via %ch on %main {\n"
                           "    hostir.send %in to %me : memref<4xf32>\n"
                           "    hostir.recv %row from %me : memref<4xf32, strided<[1]>>\n  }\n"),
               options);
  ASSERT_TRUE(t.ok) << t.errors;
  EXPECT_NE(t.dump(0).find("channel c0 \"c\" two_sided link"), std::string::npos) << t.dump(0);
}

TEST(Targets, Unknown) {
  StreamProgramOptions options;
  options.target = "gpu";
  Translated t(withChannel("collectives", kGather), options);
  EXPECT_EQ(t.errors, "unknown target \"gpu\", expected cpu-ucx or cpu-local or cuda-ucx or "
                      "cuda-nccl or cuda-peer or hip-ucx or hip-rccl or hip-peer\n");
}

} // namespace
