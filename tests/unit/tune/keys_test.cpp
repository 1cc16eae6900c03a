#include "tune/keys.h"

#include <gtest/gtest.h>

namespace octavo::tune {
namespace {

TEST(TuneKeys, bucket_edges) {
  EXPECT_EQ(m_bucket(0), 0);
  EXPECT_EQ(m_bucket(1), 128);
  EXPECT_EQ(m_bucket(128), 128);
  EXPECT_EQ(m_bucket(129), 256);
  EXPECT_EQ(m_bucket(1024), 1024);
  EXPECT_EQ(m_bucket(1025), 1536);
  EXPECT_EQ(m_bucket(4096), 4096);
  EXPECT_EQ(m_bucket(4097), 4608);
  EXPECT_EQ(m_bucket(100000), 100352);
}

TEST(TuneKeys, a_bucket_contains_its_own_name_and_never_shrinks) {
  std::int64_t previous = 0;
  for (std::int64_t m = 1; m < 9000; ++m) {
    const std::int64_t bucket = m_bucket(m);
    EXPECT_GE(bucket, m);
    EXPECT_GE(bucket, previous);
    EXPECT_EQ(m_bucket(bucket), bucket);
    previous = bucket;
  }
}

TEST(TuneKeys, file_name_is_made_of_plain_characters) {
  EXPECT_EQ((GpuKey{.name = "NVIDIA H200"}).file_name(), "nvidia-h200.json");
  EXPECT_EQ((GpuKey{.name = "NVIDIA GeForce RTX 3060 (12GB) / Max-Q"}).file_name(), "nvidia-geforce-rtx-3060-12gb-max-q.json");
  EXPECT_EQ((GpuKey{.name = "../../etc"}).file_name(), "etc.json") << "a device's name must not lead out of the folder";
  EXPECT_EQ((GpuKey{.name = ""}).file_name(), "gpu.json");
}

TEST(TuneKeys, driver_major_only) {
  EXPECT_EQ(gpu_key({.name = "A", .driver_version = 13010}, "k"), gpu_key({.name = "A", .driver_version = 13020}, "k"));
  EXPECT_NE(gpu_key({.name = "A", .driver_version = 12080}, "k"), gpu_key({.name = "A", .driver_version = 13000}, "k"));
}

}  // namespace
}  // namespace octavo::tune
