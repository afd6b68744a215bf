/* SPDX-License-Identifier: MIT */
#ifndef RFG_TUNER_CALIBRATE_H
#define RFG_TUNER_CALIBRATE_H

#include "dispatch/context.h"
#include "dispatch/db/db.h"

/* Measures the device's launches, memory and caches in 2 seconds. UNSUPPORTED on the emulator. */
rfg_status rfg_calibrate(rfg_context *ctx, struct rfg_calibration *out);

#endif
