/* SPDX-License-Identifier: MIT
 *
 * rfg: GPU operators for LLM inference, an autotuner and a dispatcher that remembers. This header is the whole
 * public interface but for the DLPack bridge (rfg/dlpack.h), which needs dlpack's own header. */
#ifndef RFG_RFG_H
#define RFG_RFG_H

#include "rfg/act.h"
#include "rfg/advance.h"
#include "rfg/comm.h"
#include "rfg/core.h"
#include "rfg/device.h"
#include "rfg/embedding.h"
#include "rfg/gemm.h"
#include "rfg/lora.h"
#include "rfg/merge_states.h"
#include "rfg/mha.h"
#include "rfg/mla.h"
#include "rfg/moe.h"
#include "rfg/norm.h"
#include "rfg/quant.h"
#include "rfg/quantize.h"
#include "rfg/rope.h"
#include "rfg/sample.h"

#endif
