// A request, checked and filled in. Every rule about options lives here; below it nothing checks again.
#pragma once

#include <string>
#include <vector>

#include "octavo/request.h"
#include "pipeline/model_index.h"
#include "pipeline/schedule.h"

namespace octavo {

struct RequestPlan {
  Request request{};   // every optional field set; guidance has one value per step
  int grid_width = 0;  // image tokens per row
  int grid_height = 0;
  Schedule schedule{};
  std::vector<std::string> advisories{};  // lines worth a person's glance; never errors

  std::int64_t image_tokens() const { return std::int64_t(grid_width) * grid_height; }
};

// Precedence: the request's own value, then its preset's, then the model's defaults, then default-20 at 1024 x 1024.
// `token_pixels`: pixels per side of one image token (16 for the published model).
// Throws InvalidArgument naming option, value and the nearest values that work; DataError if the value is one of the model's defaults.
RequestPlan plan_request(const Request& request, const GenerationDefaults& defaults, int token_pixels);

}  // namespace octavo
