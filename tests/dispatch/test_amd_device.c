/* SPDX-License-Identifier: MIT
 *
 * AMD's GPUs as HIP and the kernel's driver report them, and rfg's view of them (docs/amd.md, "Devices as rfg sees
 * them"). HIP is mock_hip.c; the driver's topology is a directory of the test. */
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "dispatch/hip/hip.h"
#include "dispatch/jit/jit.h"
#include "tests/suite.h"

#define MIB (1024.0 * 1024)
#define MMA RFG_FEATURE_MMA

static char topology[64];

static void setup(void)
{
    strcpy(topology, "/tmp/rfg-topology-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(topology));
    rfg_kfd_override(topology);
    setenv("RFG_LIBAMDHIP64", getenv("RFG_MOCK_HIP"), 1);
    setenv("RFG_LIBHIP", getenv("RFG_MOCK_HIP"), 1);
    unsetenv("RFG_HIP_DISABLE");
    unsetenv("GPU_ENABLE_WGP_MODE");
}

static void teardown(void)
{
    char cmd[100];
    snprintf(cmd, sizeof(cmd), "rm -rf %s", topology);
    ck_assert_int_eq(system(cmd), 0);
}

static void put_file(const char *path, const char *text)
{
    char full[200];
    snprintf(full, sizeof(full), "%s/nodes/%s", topology, path);
    for (char *slash = full + strlen(topology) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        ck_assert(mkdir(full, 0700) == 0 || access(full, F_OK) == 0);
    }
    FILE *f = fopen(full, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

/* A GPU's node with an L1 of 32 KiB, an L2 of 4 MiB and, if it isn't 0, a cache of level 3. */
static void put_gpu(int node, int version, int domain, int location, int xcds, long l3_kib)
{
    char path[60], text[300];
    snprintf(path, sizeof(path), "%d/properties", node);
    snprintf(text, sizeof(text),
             "cpu_cores_count 0\nsimd_count 1216\ncaches_count 3\ngfx_target_version %d\nlocation_id %d\ndomain %d\n"
             "num_xcc %d\n",
             version, location, domain, xcds);
    put_file(path, text);
    const long kib[] = { 32, 4096, l3_kib };
    for (int level = 1; level <= 3 && kib[level - 1]; level++) {
        snprintf(path, sizeof(path), "%d/caches/%d/properties", node, level - 1);
        snprintf(text, sizeof(text), "processor_id_low 2147487744\nlevel %d\nsize %ld\ncache_line_size 128\n", level,
                 kib[level - 1]);
        put_file(path, text);
    }
}

static struct rfg_device described(const char *says)
{
    struct rfg_platform_report r;
    struct rfg_device d;
    setenv("MOCK_HIP", says, 1);
    const struct rfg_hip *hip = rfg_platform_amd.load(&r);
    ck_assert_msg(hip != NULL, "%s: %s", says, r.problem);
    ck_assert_int_eq(hip->describe(0, &d), hipSuccess);
    return d;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *says;
    int kfd_xcds; /* of the node; 0: there is no node */
    int cus;
    double gbps, cache_mib;
    unsigned features;
} products[] = {
    { "gfx908:sramecc+:xnack-|AMD Instinct MI100|120|1200000|4096|8388608|60443483|0|5", 0, 120, 1228.8, 8, MMA },
    { "gfx90a:sramecc+:xnack-|AMD Instinct MI210|104|1600000|4096|8388608|50731921|0|5", 0, 104, 1638.4, 8, MMA },
    { "gfx90a:sramecc+:xnack-|AMD Instinct MI250X|110|1600000|4096|8388608|60443483|0|5", 1, 110, 1638.4, 8, MMA },
    /* L2: of one XCD, then of all. */
    { "gfx942:sramecc+:xnack-|AMD Instinct MI300X|304|1300000|8192|4194304|60443483|0|5", 0, 304, 5324.8, 256, MMA },
    { "gfx942:sramecc+:xnack-|AMD Instinct MI300X|304|1300000|8192|33554432|70051831|8|5", 8, 304, 5324.8, 256, MMA },
    /* Partitions, which are told the whole GPU's clock and width: XCDs by HIP, by the driver, by CUs. */
    { "gfx942:sramecc+:xnack-|AMD Instinct MI300X|38|1300000|8192|4194304|70051831|1|5", 0, 38, 665.6, 256, MMA },
    { "gfx942:sramecc+:xnack-|AMD Instinct MI300X|38|1300000|8192|4194304|60443483|0|5", 1, 38, 665.6, 256, MMA },
    { "gfx942:sramecc+:xnack-|AMD Instinct MI300X|38|1300000|8192|4194304|60443483|0|5", 0, 38, 665.6, 256, MMA },
    { "gfx942:sramecc+:xnack-|-|38|0|0|4194304|60443483|0|5", 0, 38, 662.5, 256, MMA },
    { "gfx942:sramecc+:xnack-|-|152|1300000|8192|4194304|60443483|0|5", 0, 152, 2662.4, 256, MMA },
    { "gfx942:sramecc+:xnack-|AMD Instinct MI300A|76|1300000|8192|4194304|60443483|0|5", 0, 76, 5324.8 / 3, 256, MMA },
    { "gfx942:sramecc+:xnack-|AMD Instinct MI308X|20|1300000|8192|4194304|60443483|0|5", 0, 20, 1331.2, 256, MMA },
    { "gfx950:sramecc+:xnack-|AMD Instinct MI355X|32|2000000|8192|4194304|70051831|1|5", 0, 32, 1024, 256, MMA },
    { "gfx942:sramecc+:xnack-|AMD Instinct MI300X|4|1300000|8192|4194304|60443483|0|5", 0, 4, 5324.8, 256,
      MMA }, /* none */
    /* Siblings, which have all of theirs; the last two by a name alone, and with a clock nobody can believe. */
    { "gfx942:sramecc+:xnack-|AMD Instinct MI308X|80|1300000|8192|4194304|60443483|0|5", 4, 80, 5324.8, 256, MMA },
    { "gfx942:sramecc+:xnack-|AMD Instinct MI300A|228|1300000|8192|4194304|60443483|0|5", 6, 228, 5324.8, 256, MMA },
    { "gfx942:sramecc+:xnack-|-|80|0|0|4194304|60443483|0|5", 0, 80, 5300, 256, MMA },
    { "gfx942:sramecc+:xnack-|AMD Instinct MI325X|304|1500000|8192|4194304|60443483|0|5", 0, 304, 6144, 256, MMA },
    { "gfx942:sramecc+:xnack-|AMD Instinct MI325X|304|0|0|4194304|60443483|0|5", 0, 304, 6000, 256, MMA },
    { "gfx942:sramecc+:xnack-|AMD Instinct MI300X VF|304|100000|8192|4194304|60443483|0|5", 0, 304, 5300, 256, MMA },
    { "gfx950:sramecc+:xnack-|AMD Instinct MI355X|256|2000000|8192|33554432|70051831|8|5", 8, 256, 8192, 256, MMA },
    /* RDNA: HIP counts WGPs. */
    { "gfx1030|AMD Radeon RX 6900 XT|40|1000000|256|4194304|60443483|0|5", 0, 80, 512, 128, 0 },
    { "gfx1100|AMD Radeon RX 7900 XTX|48|1249000|384|6291456|60443483|0|5", 0, 96, 959.232, 96, MMA },
    { "gfx1100|AMD Radeon RX 7900 XT|42|1249000|320|6291456|60443483|0|5", 0, 84, 799.36, 80, MMA },
    { "gfx1100|AMD Radeon RX 7900 XT|42|0|0|6291456|60443483|0|5", 0, 84, 800, 80, MMA },
    { "gfx1100|AMD Radeon RX 7900 GRE|40|1124000|256|6291456|60443483|0|5", 0, 80, 575.488, 64, MMA },
    { "gfx1100|AMD Radeon PRO W7900|48|0|0|6291456|60443483|0|5", 0, 96, 864, 96, MMA },
    { "gfx1101|AMD Radeon RX 7800 XT|30|1218000|256|4194304|60443483|0|5", 0, 60, 623.616, 64, MMA },
    { "gfx1102|AMD Radeon RX 7600|16|1124000|128|2097152|60443483|0|5", 0, 32, 287.744, 32, MMA },
    { "gfx1103|AMD Radeon 780M|6|937500|128|2097152|60443483|0|5", 0, 12, 120, 2, MMA },
    { "gfx1103|AMD Radeon 780M|6|2800000|128|2097152|60443483|0|5", 0, 12, 89.6, 2, MMA }, /* with DDR5-5600 */
    { "gfx1150|AMD Radeon 890M|8|937500|128|2097152|60443483|0|5", 0, 16, 120, 2, MMA },
    { "gfx1151|AMD Radeon 8060S|20|1000000|256|2097152|70051831|1|5", 0, 40, 256, 32, MMA },
    { "gfx1152|AMD Radeon 860M|4|937500|128|2097152|70051831|1|5", 0, 8, 120, 2, MMA },
    { "gfx1153|-|1|937500|64|1048576|70051831|1|5", 0, 2, 60, 2, MMA },
    { "gfx1200|AMD Radeon RX 9060 XT|16|1258000|128|4194304|70051831|1|5", 0, 32, 322.048, 32, MMA },
    { "gfx1201|AMD Radeon RX 9070 XT|32|1258000|256|8388608|70051831|1|5", 0, 64, 644.096, 64, MMA },
    { "gfx1201|AMD Radeon RX 9070|28|1258000|256|8388608|70051831|1|5", 0, 56, 644.096, 64, MMA },
    /* Nobody's yet: what its family has; of no family: what every GPU has. */
    { "gfx1104|AMD Radeon Graphics|10|1249000|128|4194304|70051831|1|5", 0, 20, 319.744, 4, MMA },
    { "gfx1310|AMD Instinct|64|1000000|1024|4194304|70051831|1|5", 0, 64, 256, 4, 0 },
};

START_TEST(product)
{
    if (products[_i].kfd_xcds)
        put_gpu(0, 90402, 0, 5 << 8, products[_i].kfd_xcds, 0);
    struct rfg_device d = described(products[_i].says);
    ck_assert_int_eq(d.cu_count, products[_i].cus);
    ck_assert_double_eq_tol(d.mem_gbps, products[_i].gbps, 1e-6 * products[_i].gbps);
    ck_assert_double_eq(d.cache_bytes / MIB, products[_i].cache_mib);
    ck_assert_uint_eq(d.features, products[_i].features);
    ck_assert_int_eq(strcspn(d.arch, ":"), strcspn(products[_i].says, ":|"));
    ck_assert(d.mma_tflops > 0 || !(d.features & MMA));
    ck_assert(d.fma_tflops > 0 && d.latency_us > 0 && d.cache_gbps > d.mem_gbps);
}
END_TEST

/* What counts CUs has one meaning: the device that HIP tells of is the one that --device imagines. */
START_TEST(as_imagined)
{
    static const char *const pairs[][2] = {
        { "gfx1100|AMD Radeon RX 7900 XTX|48|0|0|6291456|60443483|0|5", "gfx1100:96" },
        { "gfx1201|AMD Radeon RX 9070 XT|32|0|0|6291456|60443483|0|5", "gfx1201" },
        { "gfx942:sramecc+:xnack-|AMD Instinct MI300X|304|0|0|4194304|60443483|0|5", "gfx942" },
        { "gfx942:sramecc+:xnack-|AMD Instinct MI300X|38|0|0|4194304|60443483|0|5", "gfx942:38" },
    };
    struct rfg_device d = described(pairs[_i][0]), imagined;
    ck_assert(rfg_device_imagine(&imagined, pairs[_i][1]));
    memcpy(imagined.name, d.name, sizeof(d.name));
    ck_assert_mem_eq(&d, &imagined, sizeof(d));
}
END_TEST

/* ---- WGP mode ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *value; /* of GPU_ENABLE_WGP_MODE */
    int processors;    /* that HIP then says an RX 7900 XTX has */
} modes[] = { { NULL, 48 }, { "1", 48 }, { "true", 48 }, { "0", 96 }, { "false", 96 }, { "off", 96 } };

START_TEST(wgp_mode)
{
    char says[100];
    if (modes[_i].value)
        setenv("GPU_ENABLE_WGP_MODE", modes[_i].value, 1);
    snprintf(says, sizeof(says), "gfx1100|AMD Radeon RX 7900 XTX|%d|1249000|384|6291456|60443483|0|5",
             modes[_i].processors);
    ck_assert_int_eq(described(says).cu_count, 96);
    ck_assert_int_eq(rfg_wgp_mode(), modes[_i].processors == 48);
}
END_TEST

START_TEST(no_wgps)
{
    static const char *const without[] = { "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1250", "gfx9", "sm_90", "" };
    static const char *const with[] = { "gfx1010", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1201" };
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
        ck_assert_msg(!rfg_arch_of(without[i])->wgps, "%s", without[i]);
    for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++)
        ck_assert_msg(rfg_arch_of(with[i])->wgps, "%s", with[i]);
}
END_TEST

/* The key, of a process of its own: the library is loaded once. */
static bool key_with(const char *mode, char key[65])
{
    int fd[2], status;
    ck_assert_int_eq(pipe(fd), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct rfg_jit_request req = { .name = "n", .entry = "e", .target = "gfx1030", .source = "source" };
        char hex[65], version[128];
        if (mode)
            setenv("GPU_ENABLE_WGP_MODE", mode, 1);
        if (!rfg_jit_hiprtc.available(version, sizeof(version), NULL))
            _exit(1);
        rfg_cache_key(&req, &rfg_jit_hiprtc, hex);
        _exit(write(fd[1], hex, sizeof(hex)) != sizeof(hex));
    }
    close(fd[1]);
    bool ok = read(fd[0], key, 65) == 65;
    close(fd[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return ok && status == 0;
}

START_TEST(wgp_mode_is_in_the_key)
{
    char usual[65], on[65], off[65];
    unsetenv("RFG_LIBHIP");
    if (!key_with(NULL, usual)) {
        printf("SKIPPED: WGP mode in the key: no hipRTC\n");
        return;
    }
    ck_assert(key_with("1", on) && key_with("0", off));
    ck_assert_str_eq(usual, on);
    ck_assert_str_ne(usual, off);
}
END_TEST

/* ---- the driver's topology --------------------------------------------------------------------------------------- */

START_TEST(infinity_cache_of_an_unknown_arch)
{
    const char *const says = "gfx1031|AMD Radeon RX 6700 XT|20|1000000|192|3145728|60443483|0|3";
    put_file("0/properties", "cpu_cores_count 16\ngfx_target_version 0\nlocation_id 768\n");
    put_file("0/caches/0/properties", "level 3\nsize 1048576\n"); /* a CPU's */
    put_gpu(1, 110000, 0, 2 << 8, 1, 98304);                      /* others */
    put_gpu(2, 100301, 1, 3 << 8, 1, 65536);                      /* the same place of another domain */
    put_file("3/mem_banks/0/properties", "width 256\n");          /* one that a container may not read */
    put_gpu(4, 100301, 0, 3 << 8 | 0x10000000, 1, 98304);         /* it, with a partition's number */
    struct rfg_device d = described(says);
    ck_assert_int_eq(d.cache_bytes, (int64_t)96 << 20);
    ck_assert_int_eq(d.cu_count, 40);
}
END_TEST

START_TEST(no_topology)
{
    struct rfg_kfd kfd;
    int here[] = { 0, 5, 0 };
    ck_assert(!rfg_kfd_find(&kfd, "gfx942", here));
    ck_assert_int_eq(kfd.cache_bytes, 0);
    rfg_kfd_override("/nonexistent");
    ck_assert(!rfg_kfd_find(&kfd, "gfx942", NULL));
}
END_TEST

/* Without a place: the first of the arch. Names are hexadecimal, versions decimal. */
START_TEST(found_by_arch)
{
    struct rfg_kfd kfd;
    put_gpu(0, 90402, 0, 5 << 8, 8, 262144);
    put_gpu(1, 90010, 0, 6 << 8, 1, 16384);
    put_gpu(2, 110501, 0, 7 << 8, 1, 32768);
    ck_assert(rfg_kfd_find(&kfd, "gfx90a", NULL));
    ck_assert_int_eq(kfd.cache_bytes, 16384 << 10);
    ck_assert(rfg_kfd_find(&kfd, "gfx942", NULL));
    ck_assert_int_eq(kfd.cache_bytes, 262144 << 10);
    ck_assert_int_eq(kfd.xcds, 8);
    ck_assert(rfg_kfd_find(&kfd, "gfx1151", NULL));
    ck_assert_int_eq(kfd.cache_bytes, 32768 << 10);
    ck_assert(!rfg_kfd_find(&kfd, "gfx1100", NULL));
    ck_assert(!rfg_kfd_find(&kfd, "gfx", NULL));
}
END_TEST

/* Larger than the table's, the driver's counts; nonsense doesn't. */
START_TEST(larger_counts)
{
    const char *const says = "gfx942:sramecc+:xnack-|AMD Instinct MI300X|304|1300000|8192|4194304|60443483|0|5";
    put_gpu(0, 90402, 0, 5 << 8, 8, _i == 0 ? 524288 : _i == 1 ? 1024 : -7);
    ck_assert_int_eq(described(says).cache_bytes, (int64_t)(_i == 0 ? 512 : 256) << 20);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("amd_device");
    TCase *tc = test_case(s, "amd_device", setup, teardown);
    ADD_TESTS(tc, no_wgps, wgp_mode_is_in_the_key, infinity_cache_of_an_unknown_arch, no_topology, found_by_arch);
    ADD_LOOPS(tc, sizeof(products) / sizeof(products[0]), product);
    ADD_LOOPS(tc, 4, as_imagined);
    ADD_LOOPS(tc, sizeof(modes) / sizeof(modes[0]), wgp_mode);
    ADD_LOOPS(tc, 3, larger_counts);
    return run_suite(s);
}
