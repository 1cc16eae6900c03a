// Asynchronous 16-byte copies from global to shared memory. PTX ISA, "Data Movement and Conversion Instructions: cp.async"; sm_80 and later.
#pragma once

#include <cstdint>

namespace octavo::cuda {

// Copies 16 bytes if `valid` is not 0, else writes 16 zeros and reads nothing. Bypasses L1 (.cg). The third operand is cp.async's ignore-src.
__device__ __forceinline__ void cp_async_16b_or_zero(std::uint32_t to, const void* from, std::uint32_t valid) {
  asm volatile("{\n .reg .pred zero;\n setp.eq.u32 zero, %2, 0;\n cp.async.cg.shared.global.L2::128B [%0], [%1], 16, zero;\n}" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}

// The same for 4 bytes, by way of L1 (.ca is the only form).
__device__ __forceinline__ void cp_async_4b_or_zero(std::uint32_t to, const void* from, std::uint32_t valid) {
  asm volatile("{\n .reg .pred zero;\n setp.eq.u32 zero, %2, 0;\n cp.async.ca.shared.global [%0], [%1], 4, zero;\n}" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}

// Closes the group of copies that this thread issued since the last commit.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most kPending of this thread's newest groups are still under way.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace octavo::cuda
