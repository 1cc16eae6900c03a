// One function, both sides: address formulas are written once and tested on the CPU.
#pragma once

#ifdef __CUDACC__
#define OCTAVO_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define OCTAVO_HOST_DEVICE inline
#endif
