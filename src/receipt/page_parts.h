// Small pieces of HTML. What comes from outside (names, prompts) goes through escape(), once, here or at the caller as said.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/image.h"

namespace octavo::html {

std::string escape(std::string_view text);

std::string bytes(std::int64_t count);  // "18.6 MiB"
std::string percent(double share);      // "0.93 %", two significant digits

// <img> with the PNG inside. `alt` is escaped here.
std::string picture(const Image& image, std::string_view alt);

// A bar of `share` of the full width, 0 to 1, and a text beside it.
std::string bar(double share, std::string_view text, std::string_view css_class);

// Where a relative error stands between 0.3 % (0) and 15 % (1), in logarithms: what bars and colours show.
double heat(double relative_error);
// "#rrggbb" for heat 0 to 1: calm green, yellow, red; dark text is readable on all of them.
std::string heat_color(double heat);

// One column per value, as high as the value against the largest: the profile of a layer's channels.
std::string profile(const std::vector<double>& values);

// Style sheet and script of the page.
extern const char* const kStyle;
extern const char* const kScript;

}  // namespace octavo::html
