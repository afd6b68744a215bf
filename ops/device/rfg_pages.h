/* SPDX-License-Identifier: MIT
 *
 * Places in a cache of pages: key j is row RFG_PAGE_ROW() of page RFG_PAGE_OF(). Kernels have the macro PAGE_KEYS where
 * a page's number of keys is no power of two (the compiler divides by the constant), else the argument `shift`. */
#ifdef PAGE_KEYS
#define RFG_PAGE_SIZE(shift)        ((void)(shift), (rfg_u32)PAGE_KEYS)
#define RFG_PAGE_OF(j, shift)       ((void)(shift), (j) / PAGE_KEYS)
#define RFG_PAGE_ROW(j, shift)      ((void)(shift), (j) % PAGE_KEYS)
#define RFG_PAGE_FIRST(page, shift) ((void)(shift), (rfg_u64)(page)*PAGE_KEYS)
#else
#define RFG_PAGE_SIZE(shift)        (1u << (shift))
#define RFG_PAGE_OF(j, shift)       ((j) >> (shift))
#define RFG_PAGE_ROW(j, shift)      ((j) & ((1 << (shift)) - 1))
#define RFG_PAGE_FIRST(page, shift) ((rfg_u64)(page) << (shift)) /* its first slot */
#endif
