// A ModelRun as text, as JSON and as a page.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/json.h"
#include "pipeline/model_run.h"

namespace octavo {

std::string report_text(const ModelRun& run);

Json report_json(const ModelRun& run);
// What report_json wrote. Throws DataError, naming `who`, if a field is missing or of another type.
ModelRun run_from_json(const Json& json, const std::string& who);

// One HTML document with everything inside, for people: bars of the picture and of the step, a table below. No script, no network.
std::string report_page(std::span<const ModelRun> runs);

}  // namespace octavo
