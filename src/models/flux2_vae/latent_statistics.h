// The published latent statistics of the full model, in token channel order (ph * 2 + pw) * 32 + c. spec section 9.4, appendix B
#pragma once

#include <array>

namespace octavo::flux2_vae {

// They hold for this many token channels; any other autoencoder brings its own statistics in its file.
inline constexpr int kPublishedChannels = 128;

// z_vae = z * scale + shift
extern const std::array<float, kPublishedChannels> kPublishedShift;
extern const std::array<float, kPublishedChannels> kPublishedScale;

}  // namespace octavo::flux2_vae
