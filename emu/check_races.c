/* SPDX-License-Identifier: MIT */
#include "watch.h"
struct emu_races *emu_races_create(struct emu_launch *l)
{
    (void)l;
    return NULL;
}
void emu_races_destroy(struct emu_races *r)
{
    (void)r;
}
void emu_races_forget(struct emu_pages **pages)
{
    (void)pages;
}
struct emu_clocks *emu_clocks_create(void)
{
    return NULL;
}
void emu_clocks_destroy(struct emu_clocks *c)
{
    (void)c;
}
void emu_clocks_begin(struct emu_wave *w)
{
    (void)w;
}
void emu_races_before(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    (void)w, (void)i, (void)e;
}
void emu_races_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                      const struct emu_block *b)
{
    (void)w, (void)i, (void)a, (void)b;
}
void emu_races_barrier(struct emu_workgroup *wg)
{
    (void)wg;
}
