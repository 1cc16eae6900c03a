// What standard error shows while a picture is drawn: one line that rewrites itself on a terminal, plain lines elsewhere.
#pragma once

#include <string>

#include "octavo/engine.h"

namespace octavo::cli {

class ProgressDisplay {
 public:
  ProgressDisplay(bool quiet, int pictures);
  ~ProgressDisplay() { clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void show(const Progress& progress);
  void note(const std::string& line);  // an advisory line
  void clear();                        // wipes the rewritten line, before something else is printed

 private:
  bool quiet_;
  int pictures_;
  bool is_terminal_;
  bool has_line_ = false;
};

// Text on standard error. Whether anybody can read it is no reason to fail: the stream may be closed or on a full disk.
void say(const std::string& text) noexcept;

// "denoise 7/20  0.41 s/step  5 s left", with "picture 2/3  " in front when there are several.
std::string progress_text(const Progress& progress, int pictures);

}  // namespace octavo::cli
