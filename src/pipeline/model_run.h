// What a bench of a whole model measured: plain data, seconds and bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"

namespace octavo {

// All ops of one kind in one part of the model: same op, same weight but for the layer's number, same shape, same kernel.
struct OpRow {
  std::string part{};    // "text encoder", "conditional", "unconditional", "guidance", "vae"
  std::string op{};      // "linear"
  std::string name{};    // "layers.*.attention.o"; empty for ops without a weight
  std::string kernel{};  // what ran, as the op named it; empty: its only body
  std::string math{}, out{};
  std::int64_t m = 0, n = 0, k = 0;  // as OpWork
  int count = 0;
  double macs = 0, bytes = 0;  // of one
  double seconds = 0;          // of one: median over rounds, mean over the count
  double limit_seconds = 0;    // of one
  std::string limit{};         // "tensor cores", "float32 units", "memory"
};

struct TimeSpread {
  double median = 0, p10 = 0, p90 = 0;
};
TimeSpread spread_of(std::vector<double> seconds);  // at least one

struct ModelRun {
  std::string model{}, precision{};
  DeviceCaps caps{};
  int size = 0, text = 0, steps = 0;

  double load_text_seconds = 0, load_denoisers_seconds = 0, load_vae_seconds = 0;
  TimeSpread encode{};       // text encoder, features on the host
  double prepare_seconds{};  // both branches: text rows, RoPE tables, modulation of all steps
  TimeSpread conditional{}, unconditional{};
  TimeSpread step{};  // both branches and the guided step, one wait at the end
  int steps_measured = 0;
  TimeSpread decode{};
  double image_seconds() const { return encode.median + prepare_seconds + steps * step.median + decode.median; }

  // Inside one step after the first two, and its wait not counted.
  std::int64_t allocations = 0, waits = 0, host_copies = 0, graph_launches = 0;
  std::int64_t kernels_recorded = 0;  // of both branches; the guided step is one more

  double op_clock_seconds = 0;                                                    // what an empty op measures; taken off every op
  std::int64_t used_before_bytes = 0, peak_text_bytes = 0, peak_image_bytes = 0;  // of the whole GPU
  std::string state_before{}, state_after{};
  std::vector<OpRow> rows{};

  // Of the three parts of a step.
  double step_ops_seconds() const;
  // What the recorded step takes beside its ops: launches, gaps, copies of modulation rows. Negative where ops alone take longer than in the recording.
  double gap_share() const;
  // The same, with the ops that multiply nothing: what is left of the step beside products, attention included.
  double overhead_share() const;
};

bool is_of_step(const OpRow& row);

}  // namespace octavo
