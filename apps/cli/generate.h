// `octavo generate`.
#pragma once

#include <string>

#include "arguments.h"

namespace octavo::cli {

// Draws; prints the paths (or JSON, or the PNG itself) on standard output. Throws octavo::Error.
void generate(const GenerateArguments& arguments);

// Writes to standard output and makes sure that it arrived. Throws DataError.
void print_result(const std::string& text);

}  // namespace octavo::cli
