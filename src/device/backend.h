// What the CUDA part of this room provides to its host part. Defined in cuda.cpp, which a build without CUDA leaves out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "device/device.h"

namespace octavo::backend {

GpuList cuda_list_gpus();
std::int64_t cuda_used_bytes(Device device);  // by everybody
void* cuda_allocate(std::size_t bytes, Device device, std::string_view what);
void cuda_free(void* data, Device device) noexcept;
void* cuda_create_stream(Device device);
void cuda_destroy_stream(void* stream) noexcept;
void cuda_synchronize(void* stream);
void cuda_begin_recording(void* stream);
void* cuda_end_recording(void* stream);  // an executable graph
void cuda_drop_recording(void* stream) noexcept;
void cuda_launch_graph(void* executable, void* stream);
void cuda_destroy_graph(void* executable) noexcept;
void* cuda_allocate_pinned(std::size_t bytes, Device device, std::string_view what);
void cuda_free_pinned(void* data) noexcept;
void* cuda_create_event(Device device);
void cuda_destroy_event(void* event) noexcept;
void cuda_record(void* event, void* stream);
void cuda_wait(void* stream, void* event);
void cuda_copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes, void* stream);

}  // namespace octavo::backend
