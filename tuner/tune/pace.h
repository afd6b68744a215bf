/* SPDX-License-Identifier: MIT
 *
 * rfg-tune --online: its budget of the device's time. The caller passes all times; no clock is read here. */
#ifndef RFG_TUNER_TUNE_PACE_H
#define RFG_TUNER_TUNE_PACE_H

struct tune_pace {
    double budget_s;                    /* of each minute; 0: no budget, nothing is owed */
    double owed_s;                      /* to stay away from the device for, before the next slice */
    double busy_s, paused_s, longest_s; /* in all; the longest slice */
    double most_owed_s;                 /* at any time */
    int slices;
};

void tune_pace_begin(struct tune_pace *p, double ms_a_minute);
/* The device was used for so long. */
void tune_pace_worked(struct tune_pace *p, double s);
/* It wasn't, for so long. */
void tune_pace_rested(struct tune_pace *p, double s);

#endif
