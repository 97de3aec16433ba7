// Highway, with the targets that signvote is compiled for. A kernel's file defines HWY_TARGET_INCLUDE
// before this, and is then compiled once for each.

// Vectors whose length is known only at run time cannot be kept in arrays; ARM has NEON beside them.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif

#include <bit>

// clang-format off
#ifdef HWY_TARGET_INCLUDE
#include <hwy/foreach_target.h>  // must come before highway.h
#endif
#include <hwy/highway.h>
#include <hwy/cache_control.h>
// clang-format on

static_assert(std::endian::native == std::endian::little, "a plane's bytes are in the order of its bits");

/// Without vectors, the plain twins run.
#undef SIGNVOTE_PLAIN_TARGET
#define SIGNVOTE_PLAIN_TARGET (HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128)
