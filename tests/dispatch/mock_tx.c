/* SPDX-License-Identifier: MIT
 *
 * A mock of a profiler's range library, under both its names: records its calls. */
#include <string.h>

__attribute__((visibility("default"))) char mock_tx_said[4000];

int roctxRangePushA(const char *text);
int roctxRangePop(void);
int nvtxRangePushA(const char *text);
int nvtxRangePop(void);

static int push(const char *profiler, const char *text)
{
    if (strlen(mock_tx_said) + strlen(text) + 20 < sizeof(mock_tx_said)) {
        strcat(mock_tx_said, profiler);
        strcat(mock_tx_said, text);
        strcat(mock_tx_said, "(");
    }
    return 0;
}

static int pop(void)
{
    strcat(mock_tx_said, ")");
    return 0;
}

__attribute__((visibility("default"))) int roctxRangePushA(const char *text)
{
    return push("roctx:", text);
}

__attribute__((visibility("default"))) int roctxRangePop(void)
{
    return pop();
}

__attribute__((visibility("default"))) int nvtxRangePushA(const char *text)
{
    return push("nvtx:", text);
}

__attribute__((visibility("default"))) int nvtxRangePop(void)
{
    return pop();
}
