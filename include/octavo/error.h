// What can go wrong, one class per thing the caller can do about it.
//
// Every message has four parts: who noticed, what is wrong, the values, the way out.
//   "generate: --width 1000 must be a multiple of 16; nearest: 992, 1008"
#pragma once

#include <stdexcept>
#include <string>

#include "octavo/version.h"

namespace octavo {

// Base of all exceptions that the library throws on purpose. The exit code is the one the `octavo` program ends with.
class OCTAVO_API Error : public std::runtime_error {
 public:
  Error(const std::string& message, int exit_code) : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

// The caller can fix it: an option, a shape, a path.
class OCTAVO_API InvalidArgument : public Error {
 public:
  explicit InvalidArgument(const std::string& message) : Error(message, 2) {}
};

// Valid, but not in this build, on this GPU or in this precision; the message says what is.
class OCTAVO_API Unsupported : public Error {
 public:
  explicit Unsupported(const std::string& message) : Error(message, 3) {}
};

// A file is damaged, or is not what it claims to be.
class OCTAVO_API DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(message, 4) {}
};

// How much was wanted, for what, what is free, what would help.
class OCTAVO_API OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& message) : Error(message, 5) {}
};

// A device call failed. After a sticky failure the device is lost and every later call repeats the first cause.
class OCTAVO_API DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(message, 6) {}
};

// Stopped because the caller asked for it.
class OCTAVO_API Cancelled : public Error {
 public:
  explicit Cancelled(const std::string& message) : Error(message, 130) {}
};

// Our bug. Please report it with the version and the command.
class OCTAVO_API InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(message, 70) {}
};

}  // namespace octavo
