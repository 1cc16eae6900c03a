#include "ops/attention/attention_choice.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

TEST(AttentionChoice, int8_beside_int8_on_a_geforce_alone) {
  using enum AttentionKind;
  for (const int sm : {86, 89, 120}) {
    EXPECT_EQ(settled_attention(automatic, precision::w8a8, sm, 256), int8) << sm;
    for (const Precision& precision : {precision::bf16, precision::fp16, precision::f32, precision::w8a8_dequant, precision::fp8, precision::nf4})
      EXPECT_EQ(settled_attention(automatic, precision, sm, 256), floats) << sm << " " << precision.name;
    EXPECT_EQ(settled_attention(automatic, precision::w8a8, sm, 96), floats) << "a head size without a body";
  }
  // The CPU; Turing, which has no body; large chips, whose bf16 is half as fast as their int8.
  for (const int sm : {0, 75, 80, 90, 100}) EXPECT_EQ(settled_attention(automatic, precision::w8a8, sm, 256), floats) << sm;
}

TEST(AttentionChoice, what_was_asked_for_stays) {
  using enum AttentionKind;
  for (const int sm : {0, 75, 86, 90}) {
    for (const AttentionKind asked : {floats, int8}) {
      for (const Precision& precision : {precision::bf16, precision::w8a8}) EXPECT_EQ(settled_attention(asked, precision, sm, 64), asked);
    }
  }
}

}  // namespace
}  // namespace octavo
