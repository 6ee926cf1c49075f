//===- OptionsTest.cpp - the command line of tandem-run ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::run;
using testing::ElementsAre;

TEST(Options, Defaults) {
  auto o = parseOptions({"p.tsp"});
  ASSERT_TRUE(o) << o.status().message();
  EXPECT_THAT(o->programs, ElementsAre("p.tsp"));
  EXPECT_FALSE(o->several());
  EXPECT_EQ(o->ranks, 0u);
  EXPECT_EQ(o->channel, "ucx");
  EXPECT_EQ(o->repeat, 1u);
  EXPECT_EQ(o->timeout.count(), 60000);
}

TEST(Options, ValuesWithEqualsOrApart) {
  auto o = parseOptions({"-n", "4", "--kernels", "a.so,b.so", "--kernels=c.so", "p.tsp",
                         "--timeout=0.5", "--seed", "18446744073709551615", "--verify"});
  ASSERT_TRUE(o) << o.status().message();
  EXPECT_EQ(o->ranks, 4u);
  EXPECT_THAT(o->kernels, ElementsAre("a.so", "b.so", "c.so"));
  EXPECT_EQ(o->timeout.count(), 500);
  EXPECT_EQ(o->seed, ~uint64_t(0));
  EXPECT_TRUE(o->verify);
}

TEST(Options, Errors) {
  EXPECT_FALSE(parseOptions({}));
  EXPECT_TRUE(parseOptions({"--help"}));
  for (const char *bad : {"--nothing", "-x", "--repeat=0", "--repeat=", "--repeat=1e3", "--seed=-1",
                          "--timeout=-1", "--timeout=nan", "--timeout=", "--json=", "--n=4"})
    EXPECT_FALSE(parseOptions({"p.tsp", bad})) << bad;
  EXPECT_EQ(parseOptions({"p.tsp", "--json"}).status().message(),
            "--json: 1 required FILE missing");
  EXPECT_FALSE(parseOptions({"p.tsp", "--device=null", "--verify"}));
}

TEST(Options, SeveralPrograms) {
  auto o = parseOptions({"a.tsp", "--verify", "b/a.tsp", "c.d.tsp"});
  ASSERT_TRUE(o) << o.status().message();
  EXPECT_THAT(o->programs, ElementsAre("a.tsp", "b/a.tsp", "c.d.tsp"));
  EXPECT_TRUE(o->several());
  EXPECT_EQ(parseOptions({"a.tsp", "b.tsp", "--trace=t"}).status().message(),
            "--trace: expected one program, found 2");
}

TEST(Options, FoldersOfSeveralPrograms) {
  auto one = parseOptions({"x/c.d.tsp", "--dump-npy=out"});
  ASSERT_TRUE(one);
  EXPECT_EQ(dumpFolder(*one, one->programs[0]), "out");
  auto two = parseOptions({"x/c.d.tsp", "c.tsp", "--dump-npy=out"});
  ASSERT_TRUE(two) << two.status().message();
  EXPECT_EQ(dumpFolder(*two, two->programs[0]), "out/c.d");
  EXPECT_EQ(dumpFolder(*two, two->programs[1]), "out/c");
  // Twice the same program is nothing to complain about, unless both write to one place.
  EXPECT_TRUE(parseOptions({"a.tsp", "x/a.tsp"}));
  EXPECT_EQ(parseOptions({"a.tsp", "x/a.tsp", "--dump-npy=out"}).status().message(),
            "--dump-npy: \"a.tsp\" and \"x/a.tsp\" would both be written to \"out/a\"");
}
