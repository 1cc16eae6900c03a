#include "models/flux2_vae/footprint.h"

#include "models/flux2_vae/network.h"
#include "nn/linear.h"
#include "weights/weight_store.h"

namespace octavo::flux2_vae {

DecoderFootprint::DecoderFootprint(const std::filesystem::path& folder, const Precision& precision)
    : config_(Config::read(folder)), rows_(precision.rows), residual_(precision.residual) {
  const WeightStore store(folder, "vae");
  spec_ = decoder_spec(config_, Names::find(store));
  (void)store.check(spec_.parameters(), {});
  for (const ParamSpec& param : spec_.parameters()) {
    if (is_of_attention(param.name)) continue;
    if (param.role == ParamRole::conv_weight) {
      weights_.add_tensor(rows_, param.shape);
    } else {
      weights_.add_tensor(std::int64_t(store.get(param.name).bytes()));
    }
  }
  if (!spec_.attention) return;
  const nn::LinearUse use(NumberFormat{rows_});
  weights_ += nn::plan_linear(store, {{spec_.attention->to_q}, {spec_.attention->to_k}, {spec_.attention->to_v}}, true, use).memory;
  weights_ += nn::plan_linear(store, {{spec_.attention->to_out}}, true, use).memory;
}

bool DecoderFootprint::is_of_attention(std::string_view name) const {
  if (!spec_.attention) return false;
  const AttentionSpec& attention = *spec_.attention;
  for (const std::string* module : {&attention.to_q, &attention.to_k, &attention.to_v, &attention.to_out}) {
    if (name == *module + ".weight" || name == *module + ".bias") return true;
  }
  return false;
}

nn::Footprint DecoderFootprint::maps(std::int64_t latent_h, std::int64_t latent_w, std::int64_t strip_elements) const {
  nn::Footprint sum;
  const MapSizes sizes = map_sizes(spec_, latent_h, latent_w, true, strip_elements);
  sum.add_tensor(residual_, {sizes.block});
  sum.add_tensor(rows_, {sizes.strips[0]});
  sum.add_tensor(residual_, {sizes.strips[1]});
  if (rows_ == DType::f16) sum.add_tensor(rows_, {sizes.read});  // conv2d's, from the scratch arena
  sum.add_tensor(DType::f32, {latent_h, latent_w, config_.latent_channels});
  sum.add_tensor(DType::f32, {latent_h * config_.scale(), latent_w * config_.scale(), config_.image_channels});
  return sum;
}

}  // namespace octavo::flux2_vae
