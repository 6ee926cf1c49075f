//===- DeclarationsTest.cpp - the same interface as NCCL's header ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include <climits>
#include <cstddef>
#include <gtest/gtest.h>
#include <nccl.h>

#define TANDEM_CCL_TYPES_ONLY
namespace own {
#include "Declarations.h"
} // namespace own

#define EXPECT_SAME(name) EXPECT_EQ(static_cast<int>(own::name), static_cast<int>(::name)) << #name
#define EXPECT_PLACE(member)                                                                       \
  EXPECT_EQ(offsetof(own::ncclConfig_t, member), offsetof(::ncclConfig_t, member)) << #member

TEST(CclDeclarations, AreThoseOfNccl) {
  EXPECT_SAME(ncclSuccess);
  EXPECT_SAME(ncclUnhandledCudaError);
  EXPECT_SAME(ncclSystemError);
  EXPECT_SAME(ncclInternalError);
  EXPECT_SAME(ncclInvalidArgument);
  EXPECT_SAME(ncclInvalidUsage);
  EXPECT_SAME(ncclRemoteError);
  EXPECT_SAME(ncclInProgress);
  EXPECT_SAME(ncclInt8);
  EXPECT_SAME(ncclUint8);
  EXPECT_SAME(ncclInt32);
  EXPECT_SAME(ncclUint32);
  EXPECT_SAME(ncclInt64);
  EXPECT_SAME(ncclUint64);
  EXPECT_SAME(ncclFloat16);
  EXPECT_SAME(ncclFloat32);
  EXPECT_SAME(ncclFloat64);
  EXPECT_SAME(ncclBfloat16);
  EXPECT_SAME(ncclSum);
  EXPECT_SAME(ncclMax);
  EXPECT_SAME(ncclMin);
  EXPECT_EQ(sizeof(own::ncclUniqueId), sizeof(::ncclUniqueId));
  EXPECT_PLACE(size);
  EXPECT_PLACE(magic);
  EXPECT_PLACE(version);
  EXPECT_PLACE(blocking);
  EXPECT_PLACE(cgaClusterSize);
  EXPECT_PLACE(minCTAs);
  EXPECT_PLACE(maxCTAs);
  EXPECT_PLACE(netName);
  EXPECT_PLACE(splitShare);
  EXPECT_LE(sizeof(own::ncclConfig_t), sizeof(::ncclConfig_t));
  ::ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(own::kInitialConfig.size, sizeof(own::ncclConfig_t));
  EXPECT_LE(own::kInitialConfig.version, config.version);
  EXPECT_EQ(own::kInitialConfig.magic, config.magic);
  EXPECT_EQ(own::kInitialConfig.blocking, config.blocking);
  EXPECT_EQ(own::kInitialConfig.cgaClusterSize, config.cgaClusterSize);
  EXPECT_EQ(own::kInitialConfig.minCTAs, config.minCTAs);
  EXPECT_EQ(own::kInitialConfig.maxCTAs, config.maxCTAs);
  EXPECT_EQ(own::kInitialConfig.netName, config.netName);
  EXPECT_EQ(own::kInitialConfig.splitShare, config.splitShare);
}
