/* SPDX-License-Identifier: MIT
 *
 * The budget of a tuner on a shared device. After each slice of work it pauses, for a time in proportion to the slice.
 * A long pause doesn't allow a longer slice later. */
#include "pace.h"

#define MINUTE 60.0

void tune_pace_begin(struct tune_pace *p, double ms_a_minute)
{
    *p = (struct tune_pace){ .budget_s = 1e-3 * ms_a_minute };
}

void tune_pace_worked(struct tune_pace *p, double s)
{
    if (p->budget_s <= 0 || s <= 0)
        return;
    p->slices++;
    p->busy_s += s;
    p->longest_s = s > p->longest_s ? s : p->longest_s;
    p->owed_s += s * (MINUTE / p->budget_s - 1);
    p->most_owed_s = p->owed_s > p->most_owed_s ? p->owed_s : p->most_owed_s;
}

void tune_pace_rested(struct tune_pace *p, double s)
{
    p->paused_s += s;
    p->owed_s = p->owed_s > s ? p->owed_s - s : 0;
}
