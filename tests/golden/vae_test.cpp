// The autoencoder against the reference, and the laws of its token plumbing.
#include "models/flux2_vae/vae.h"

#include "golden/golden.h"
#include "golden/random_model.h"

namespace octavo::flux2_vae {
namespace {

using golden::CpuContext;
using golden::Reference;

class VaeGolden : public ::testing::TestWithParam<std::string> {
 protected:
  Reference reference{GetParam()};

  Tensor stored(const std::string& name) const { return golden::channels_last(reference.expected.tensor(name)); }
  Tensor decode(CpuContext& cpu, const Precision& precision) const { return Vae(cpu, reference.folder / "vae", precision).decode(cpu, stored("vae.latent")); }
  Tensor encode(CpuContext& cpu, const Precision& precision) const { return Vae(cpu, reference.folder / "vae", precision).encode(cpu, stored("vae.image")); }
};
INSTANTIATE_TEST_SUITE_P(Reference, VaeGolden, ::testing::ValuesIn(golden::reference_names()), golden::test_name);

TEST_P(VaeGolden, float32_decode_and_encode_equal_the_reference) {
  CpuContext cpu;
  const Tensor image = decode(cpu, precision::f32);
  const Tensor mean = encode(cpu, precision::f32);
  const double decode_error = golden::relative_l2(image, stored("vae.decoded"));
  const double encode_error = golden::relative_l2(mean, stored("vae.encoded_mean"));
  std::printf("%s decode: relative L2 %.2e, max %.2e; encode: relative L2 %.2e, max %.2e\n", GetParam().c_str(), decode_error,
              golden::max_error(image, stored("vae.decoded")), encode_error, golden::max_error(mean, stored("vae.encoded_mean")));
  EXPECT_LE(decode_error, 1e-5);  // issue 2, A2
  EXPECT_LE(encode_error, 1e-5);
}

TEST_P(VaeGolden, plain_bodies_equal_the_reference_too) {
  CpuContext cpu(2, true);
  EXPECT_LE(golden::relative_l2(decode(cpu, precision::f32), stored("vae.decoded")), 1e-5);
  EXPECT_LE(golden::relative_l2(encode(cpu, precision::f32), stored("vae.encoded_mean")), 1e-5);
}

TEST_P(VaeGolden, same_bits_for_any_number_of_threads) {
  for (const Precision& precision : {precision::f32, precision::bf16, precision::fp16}) {
    CpuContext one(1), three(3);
    EXPECT_TRUE(golden::same_bits(decode(one, precision), decode(three, precision))) << precision.name;
    EXPECT_TRUE(golden::same_bits(encode(one, precision), encode(three, precision))) << precision.name;
  }
}

// Statistics are of the whole map and a pixel's sum does not know its strip: two rows at a time give the bits of everything at once, also where sizes are odd.
TEST_P(VaeGolden, strips_do_not_show) {
  for (const bool reference_bodies : {false, true}) {
    for (const Precision& precision : {precision::f32, precision::bf16}) {
      CpuContext cpu(2, reference_bodies);
      const Vae vae(cpu, reference.folder / "vae", precision);
      for (const Shape& grid : {Shape{6, 4}, Shape{5, 7}, Shape{1, 1}}) {
        const Tensor latent = golden::random_rows({grid[0], grid[1], vae.config().latent_channels}, 3);
        const Tensor whole = vae.decode(cpu, latent, std::int64_t(1) << 40);
        for (const std::int64_t elements : {1, 2000, 12000})
          EXPECT_TRUE(golden::same_bits(vae.decode(cpu, latent, elements), whole)) << precision.name << " " << grid.text() << " in strips of " << elements;
      }
    }
  }
}

// Every map is rounded once to bf16 (2^-9 at most, 2^-9/√3 in the mean); a path through the decoder crosses about 30 of them, √30 · 2^-9/√3 = 0.6 %
// if the errors were independent and all of full weight.
TEST_P(VaeGolden, bf16_stays_within_accumulated_rounding) {
  CpuContext cpu;
  const double decode_error = golden::relative_l2(decode(cpu, precision::bf16), stored("vae.decoded"));
  const double encode_error = golden::relative_l2(encode(cpu, precision::bf16), stored("vae.encoded_mean"));
  std::printf("%s in bf16: decode %.2e, encode %.2e\n", GetParam().c_str(), decode_error, encode_error);
  EXPECT_LE(decode_error, 0.02);
  EXPECT_LE(encode_error, 0.02);
  EXPECT_GT(decode_error, 1e-4);
}

// Half a step of float16 is 2^-12 of a number, an eighth of bf16's, and the maps that residuals add up in are not rounded at all.
TEST_P(VaeGolden, fp16_is_eight_times_closer_than_bf16) {
  CpuContext cpu;
  const double decode_error = golden::relative_l2(decode(cpu, precision::fp16), stored("vae.decoded"));
  const double encode_error = golden::relative_l2(encode(cpu, precision::fp16), stored("vae.encoded_mean"));
  std::printf("%s in fp16: decode %.2e, encode %.2e\n", GetParam().c_str(), decode_error, encode_error);
  EXPECT_LE(decode_error, 0.02 / 8);
  EXPECT_LE(encode_error, 0.02 / 8);
  EXPECT_GT(decode_error, 1e-5);
}

TEST_P(VaeGolden, w8a8_leaves_the_autoencoder_in_float32) {
  CpuContext cpu;
  EXPECT_TRUE(golden::same_bits(decode(cpu, precision::w8a8), decode(cpu, precision::f32)));
}

// spec section 15.4: z[token][k] = 1000 k + token must land on latent[2y + ph, 2x + pw, c] with k = (2 ph + pw) C + c.
TEST_P(VaeGolden, unpatchify_puts_every_value_in_its_place_and_patchify_takes_it_back) {
  CpuContext cpu;
  const Vae vae(cpu, reference.folder / "vae", precision::f32);
  const int channels = vae.config().latent_channels, grid_h = 3, grid_w = 5;
  Tensor tokens(DType::f32, {grid_h * grid_w, vae.config().token_channels()});
  for (int token = 0; token < grid_h * grid_w; ++token) {
    for (int k = 0; k < vae.config().token_channels(); ++k) tokens.view().row<float>(token)[k] = 1000.0f * float(k) + float(token);
  }
  const Tensor latent = vae.unpatchify(tokens, grid_h, grid_w);
  ASSERT_EQ(latent.shape(), (Shape{2 * grid_h, 2 * grid_w, channels}));
  for (int y = 0; y < 2 * grid_h; ++y) {
    for (int x = 0; x < 2 * grid_w; ++x) {
      for (int c = 0; c < channels; ++c) {
        const int k = ((y % 2) * 2 + x % 2) * channels + c, token = y / 2 * grid_w + x / 2;
        ASSERT_EQ(latent.as<float>()[(y * 2 * grid_w + x) * channels + c], 1000.0f * float(k) + float(token));
      }
    }
  }
  EXPECT_TRUE(golden::same_bits(vae.patchify(latent), tokens));
}

TEST_P(VaeGolden, normalize_undoes_denormalize) {
  CpuContext cpu;
  const Vae vae(cpu, reference.folder / "vae", precision::f32);
  const Tensor noise = reference.noise();
  const Tensor there = to_float_tensor(noise);
  vae.denormalize(cpu, there);
  EXPECT_GT(golden::relative_l2(there, noise), 1e-3);
  vae.normalize(cpu, there);
  // One rounding each in the product and the sum of the way there, in the difference and the quotient of the way back.
  EXPECT_LE(golden::max_error(there, noise), 4 * 6e-8 * 8);
}

// The reference's last latents, denormalised and decoded, are its picture.
TEST_P(VaeGolden, last_latents_become_the_reference_picture) {
  CpuContext cpu;
  const Vae vae(cpu, reference.folder / "vae", precision::f32);
  const TensorView steps = reference.expected.tensor("latents_per_step");
  const std::int64_t rows = steps.shape[-2], columns = steps.shape[-1];
  const Tensor tokens = to_float_tensor(steps.reshaped({steps.shape[0] * rows, columns}).row_range((steps.shape[0] - 1) * rows, rows));
  vae.denormalize(cpu, tokens);
  const Tensor image = vae.decode(cpu, vae.unpatchify(tokens, 6, 4));
  const TensorView expected = reference.expected.tensor("image");
  double worst = 0;
  for (std::int64_t i = 0; i < expected.shape.elements(); ++i) {
    const double value = std::clamp(double(image.as<float>()[i]) / 2 + 0.5, 0.0, 1.0);
    worst = std::max(worst, std::fabs(value - expected.as<float>()[i]));
  }
  std::printf("%s picture from the reference's latents: max %.2e\n", GetParam().c_str(), worst);
  EXPECT_LE(worst, 1e-4);
}

}  // namespace
}  // namespace octavo::flux2_vae
