// What lies where on a GPU while a picture is drawn, decided from a budget before anything is loaded. Arithmetic alone: no device is asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octavo {

// Bytes that the parts of a model take on a GPU.
struct ResidencyWeights {
  struct Denoiser {
    std::vector<std::int64_t> layers{};  // their projections, which can be streamed
    std::int64_t conditioning = 0;       // what only the preparation of a picture reads
    std::int64_t rest = 0;
  };
  std::vector<std::int64_t> text_layers{};
  Denoiser cond{}, uncond{};
  std::int64_t autoencoder = 0;
  std::int64_t place = 0;  // of a streamed layer
};

// Bytes of everything else, for one picture.
struct ResidencyRows {
  std::int64_t text_scratch = 0, text_tables = 0;
  std::int64_t features = 0;  // of the text, while the conditional denoiser prepares
  std::int64_t prepare_scratch = 0, denoise_scratch = 0;
  std::int64_t sessions = 0;  // text rows, RoPE tables, modulation of both denoisers
  std::int64_t loras = 0;     // of both denoisers
  std::int64_t latents = 0;   // and the two velocities
  std::int64_t maps = 0;      // of the decoder, with latent and picture
};

// The CUDA context, the program's kernels, the libraries' handles. Predicted.
inline constexpr std::int64_t kRuntimeBytes = 640ll << 20;
// Of any op at a time, in the scratch arena: cuBLASLt asks for 32 MiB, sums of a split K for less. Predicted.
inline constexpr std::int64_t kOpWorkspaceBytes = 64ll << 20;
// Of a budget that no plan uses: what the driver rounds up, what the desktop takes meanwhile.
inline constexpr std::int64_t kMarginBytes = 512ll << 20;

// The three decisions that last as long as the denoisers are loaded.
struct ResidencyChoice {
  int cond_streamed = 0, uncond_streamed = 0;  // layers
  bool keeps_conditioning = true;              // else it is loaded for every request and leaves again: two gigabytes of the full model
  bool lends_scratch = false;                  // the denoisers' scratch and places are there only while they work; streaming implies it

  bool streams() const { return cond_streamed + uncond_streamed > 0; }
  bool operator==(const ResidencyChoice&) const = default;
};

struct ResidencyPlan {
  struct Item {
    std::string what{};
    std::int64_t bytes = 0;
  };
  struct Phase {
    std::string_view name{};  // "encode", "prepare", "denoise", "decode"
    std::vector<Item> items{};
    std::int64_t bytes() const;
  };

  ResidencyChoice choice{};
  bool runs_beside = false;              // both branches of a step at once, the second with a scratch of its own: see side_stream.h
  bool keeps_text_whole = false;         // else one layer of the text encoder at a time
  std::vector<Phase> phases{};           // in their order
  std::int64_t scratch_bytes = 0;        // of the one arena while the denoisers work
  std::int64_t early_scratch_bytes = 0;  // before that
  std::int64_t streamed_bytes = 0;       // host to device in every step that runs both denoisers; what is streamed also lies in page-locked host memory
  std::int64_t peak_bytes() const;       // the largest phase
  const Phase& largest_phase() const;
};

// What a choice comes to. The text encoder is kept whole if that fits `budget`, too.
ResidencyPlan evaluate_residency(const ResidencyWeights& weights, const ResidencyRows& rows, const ResidencyChoice& choice, std::int64_t budget);

// Whether the plan keeps kMarginBytes of the budget free.
bool fits_budget(const ResidencyPlan& plan, std::int64_t budget);

// The first choice that fits, in this order: everything stays; the conditioning comes and goes; scratch is lent to the decoder; then 3, 4, ... layers are
// streamed, both denoisers alike (fewer than three would save nothing: two places take the room of two layers). So more budget never streams more.
// Nothing if not even the last fits.
std::optional<ResidencyPlan> plan_residency(const ResidencyWeights& weights, const ResidencyRows& rows, std::int64_t budget);

// The same plan with both branches beside each other, if everything is resident and a second scratch fits the budget, too; else the plan.
ResidencyPlan with_second_branch(const ResidencyPlan& plan, std::int64_t budget);

// The smallest budget that plan_residency accepts.
std::int64_t smallest_budget(const ResidencyWeights& weights, const ResidencyRows& rows);

// "12GB", "12.5 GiB", "800MB", "800MiB", any case; GB and MB are powers of ten. Throws InvalidArgument naming `option`.
std::int64_t parse_memory_size(std::string_view option, const std::string& text);
// "11.4 GB", "830 MB": powers of ten, rounded up so that what is printed can be asked for. The word is the same as an option takes it: "11.4GB".
std::string memory_size_text(std::int64_t bytes);
std::string memory_size_word(std::int64_t bytes);

}  // namespace octavo
