/* SPDX-License-Identifier: MIT
 *
 * What latent attention asks of an architecture beyond rfg_attention.h: how rows lie in LDS that are both keys and
 * values, and how a lane reads values there. */

/* Chunk c of row r lies at c ^ this. NVIDIA: eight lanes that LDS answers together read four chunks of two neighbouring
 * rows as keys, and two chunks of rows r, r + 2, r + 4, r + 6 as values. AMD: a chunk of eight rows, or eight chunks of
 * one. */
RFG_DEVICE int rfg_latent_swizzle(int row)
{
#if RFG_NVIDIA
    return (row & 6) ^ (row & 1) * 4;
#else
    return row & 7;
#endif
}

#if RFG_HAS_MMA
/* Lanes that have a token of V, and the elements of a row of dv that each of them reads. */
#define RFG_LATENT_LANES        (RFG_NVIDIA ? 8 : 16)
#define RFG_LATENT_ELEMENTS(dv) (RFG_NVIDIA ? 8 : RFG_WAVE == 32 || (dv) % 128 ? 4 : 8)

/* The i-th token of 16 that a lane has of V and of P: 2 i and 2 i + 1 are neighbours. */
RFG_DEVICE int rfg_latent_token(int i)
{
#if RFG_WMMA11
    return i;
#else
    return rfg_pv_token(i);
#endif
}
/* The query of which a lane has the weights, as rfg_pv_mma()'s p. */
RFG_DEVICE int rfg_latent_query(void)
{
#if RFG_NVIDIA
    return rfg_lane() / 4;
#else
    return rfg_lane() % 16;
#endif
}

/* rfg_keep_order() where registers are few: RDNA's 256 hold neither a matrix instruction's sums nor its queries apart. */
RFG_DEVICE void rfg_latent_keep_order(void)
{
#if RFG_AMD && RFG_WAVE == 32
    rfg_keep_order();
#endif
}
#endif
