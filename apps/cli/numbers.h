// Words to numbers, strictly: the whole word, no other base, no rounding, no wrap-around. Throw InvalidArgument naming the option.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "octavo/request.h"

namespace octavo::cli {

int to_int(const std::string& option, const std::string& word);
std::uint64_t to_seed(const char* option, const std::string& word);
double to_double(const char* option, const std::string& word);  // "nan" and "inf" pass: whether they make sense is the request's matter
std::vector<float> to_float_list(const char* option, const std::string& words);
ScheduleEnd to_schedule_end(const char* option, const std::string& word);
LoraSource to_lora_source(const char* option, const std::string& word);  // "FILE" or "FILE:STRENGTH"
NoiseSource to_noise_source(const char* option, const std::string& word);

}  // namespace octavo::cli
