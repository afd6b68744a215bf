/* SPDX-License-Identifier: MIT
 *
 * rfg-info's lines on the kernel, the device nodes and the variables, with made-up root directories. */
#include <sys/stat.h>
#include <unistd.h>

#include "dispatch/hip/amd_facts.h"
#include "tests/suite.h"
#include "tests/tempfiles.h"

static struct rfg_platform_fact facts[RFG_PLATFORM_FACTS];
static int n_facts;

static void put(const char *name, mode_t mode, const char *text)
{
    ck_assert_int_eq(chmod(put_file(name, text), mode), 0);
}

static void put_node(int node, int simds, int gfx)
{
    char path[100], text[200];
    snprintf(path, sizeof(path), "sys/class/kfd/kfd/topology/nodes/%d/properties", node);
    snprintf(text, sizeof(text), "cpu_cores_count %d\nsimd_count %d\nmem_banks_count 1\ngfx_target_version %d\n",
             simds ? 0 : 64, simds, gfx);
    put(path, 0644, text);
}

/* A node of the CPU, then the GPUs; device nodes that everybody may open. */
static void put_machine(int gpus, int gfx)
{
    put_node(0, 0, 0);
    put("dev/kfd", 0666, "");
    for (int i = 0; i < gpus; i++) {
        char path[100];
        put_node(1 + i, 1216, gfx);
        snprintf(path, sizeof(path), "dev/dri/renderD%d", 128 + i);
        put(path, 0666, "");
        snprintf(path, sizeof(path), "sys/class/drm/renderD%d/device/vendor", 128 + i);
        put(path, 0644, "0x1002\n");
    }
}

static const char *said(const char *what)
{
    for (int i = 0; i < n_facts; i++)
        if (!strcmp(facts[i].what, what))
            return facts[i].says;
    return NULL;
}

static void look(void)
{
    n_facts = rfg_amd_facts(root, facts, RFG_PLATFORM_FACTS);
}

static void expect(const char *what, const char *says)
{
    const char *is = said(what);
    ck_assert_msg(is, "nothing is said of %s", what);
    ck_assert_str_eq(is, says);
}

static void begin(void)
{
    static const char *const names[] = { "ROCR_VISIBLE_DEVICES",     "HIP_VISIBLE_DEVICES",
                                         "CUDA_VISIBLE_DEVICES",     "GPU_DEVICE_ORDINAL",
                                         "HSA_OVERRIDE_GFX_VERSION", "HSA_OVERRIDE_GFX_VERSION_2" };
    setup();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

/* ---- the kernel and its nodes ----------------------------------------------------------------------------------- */

START_TEST(all_is_well)
{
    put_machine(8, 90402);
    look();
    expect("amdgpu", "8 GPUs: gfx942 x 8");
    expect("/dev/kfd", "can be opened");
    expect("/dev/dri/renderD*", "8 of 8 can be opened");
    ck_assert_int_eq(n_facts, 3); /* and nothing of variables that are not set */
}
END_TEST

START_TEST(archs)
{
    put_machine(1, 90010);
    put_node(2, 192, 110003);
    put_node(4, 192, 110003); /* a container may have no node 3 */
    put_node(5, 256, 120001);
    look();
    expect("amdgpu", "4 GPUs: gfx90a x 1, gfx1103 x 2, gfx1201 x 1");
}
END_TEST

START_TEST(no_driver)
{
    ck_assert(rfg_mkdirs(root));
    look();
    ck_assert_ptr_nonnull(strstr(said("amdgpu"), "driver is not loaded: there is no /sys/class/kfd"));
    expect("/dev/kfd", "No such file or directory: it comes with the driver");
    expect("/dev/dri/renderD*", "no render node of an AMD GPU");
}
END_TEST

/* sysfs is the host's, /dev is not. */
START_TEST(container_without_devices)
{
    put_node(0, 0, 0);
    put_node(1, 1216, 90402);
    look();
    expect("amdgpu", "1 GPU: gfx942 x 1");
    expect("/dev/kfd",
           "No such file or directory: the driver is loaded, so this container lacks the device (docker run "
           "--device /dev/kfd --device /dev/dri)");
    expect("/dev/dri/renderD*", "no render node of an AMD GPU (docker run --device /dev/dri)");
}
END_TEST

START_TEST(driver_without_gpus)
{
    put_node(0, 0, 0);
    look();
    expect("amdgpu", "the kernel's driver is loaded, but shows this process no GPU");
}
END_TEST

/* Whoever is not in the nodes' group; root could open them all the same. */
START_TEST(no_permission)
{
    put_machine(2, 90402);
    put("dev/kfd", 0660, "");
    put("dev/dri/renderD129", 0660, "");
    if (geteuid() == 0) {
        static const char *const dirs[] = { "", "/dev", "/dev/dri" };
        for (int i = 0; i < 3; i++) { /* everybody may go there */
            char *dir = rfg_asprintf("%s%s", root, dirs[i]);
            ck_assert_int_eq(chmod(dir, 0755), 0);
            free(dir);
        }
        ck_assert(setegid(65534) == 0 && seteuid(65534) == 0);
    } else {
        put("dev/kfd", 0, "");
        put("dev/dri/renderD129", 0, "");
    }
    look();
    const char *kfd = said("/dev/kfd"), *render = said("/dev/dri/renderD129");
    if (geteuid() == 65534)
        ck_assert(seteuid(0) == 0 && setegid(0) == 0);
    ck_assert_ptr_nonnull(kfd);
    ck_assert_ptr_nonnull(strstr(kfd, "Permission denied: mode 0"));
    ck_assert_ptr_nonnull(strstr(kfd, "group "));
    ck_assert_ptr_nonnull(strstr(kfd, "(gid "));
    ck_assert_ptr_nonnull(strstr(kfd, "in which this process is not"));
    ck_assert_ptr_nonnull(render);
    ck_assert_ptr_nonnull(strstr(render, "Permission denied"));
    expect("/dev/dri/renderD*", "1 of 2 can be opened");
}
END_TEST

/* Another vendor's GPU is no concern of AMD's runtime. */
START_TEST(other_vendors_nodes)
{
    put_machine(1, 90402);
    put("dev/dri/renderD140", 0, "");
    put("sys/class/drm/renderD140/device/vendor", 0644, "0x10de\n");
    look();
    expect("/dev/dri/renderD*", "1 of 1 can be opened");
}
END_TEST

/* ---- variables -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *rocr, *hip, *cuda; /* NULL: not set */
    const char *what, *says;       /* says NULL: nothing */
} visible[] = {
    { "0,2", NULL, NULL, "ROCR_VISIBLE_DEVICES=0,2", "ROCr gives HIP 2 of 8 GPUs, in this order" },
    { "", NULL, NULL, "ROCR_VISIBLE_DEVICES=", "empty, which hides every GPU (unset it)" },
    { "-1", NULL, NULL, "ROCR_VISIBLE_DEVICES=-1",
      "ROCr gives HIP 0 of 8 GPUs, in this order; the list ends at '-1', which is none or came before" },
    { "3,GPU-0123456789abcdef,8,1", NULL, NULL, "ROCR_VISIBLE_DEVICES=3,GPU-0123456789abcdef,8,1",
      "ROCr gives HIP 2 of 8 GPUs, in this order; the list ends at '8', which is none or came before" },
    { "1,1,2", NULL, NULL, "ROCR_VISIBLE_DEVICES=1,1,2",
      "ROCr gives HIP 1 of 8 GPUs, in this order; the list ends at '1', which is none or came before" },
    { NULL, "7", NULL, "HIP_VISIBLE_DEVICES=7", "HIP shows 1 of 8 GPUs, in this order" },
    { NULL, "1,1,2", NULL, "HIP_VISIBLE_DEVICES=1,1,2", "HIP shows 2 of 8 GPUs, in this order" },
    { NULL, "0x1", NULL, "HIP_VISIBLE_DEVICES=0x1",
      "HIP shows 0 of 8 GPUs, in this order; the list ends at '0x1', which is none" },
    { NULL, "1x,0", NULL, "HIP_VISIBLE_DEVICES=1x,0",
      "HIP shows 0 of 8 GPUs, in this order; the list ends at '1x', which is none" },
    { NULL, "01", NULL, "HIP_VISIBLE_DEVICES=01",
      "HIP shows 0 of 8 GPUs, in this order; the list ends at '01', which is none" },
    { NULL, "0, 1", NULL, "HIP_VISIBLE_DEVICES=0, 1",
      "HIP shows 1 of 8 GPUs, in this order; the list ends at ' 1', which is none" },
    { "0x1, 2 ,010", NULL, NULL, "ROCR_VISIBLE_DEVICES=0x1, 2 ,010",
      "ROCr gives HIP 2 of 8 GPUs, in this order; the list ends at '010', which is none or came before" },
    { NULL, "", NULL, "HIP_VISIBLE_DEVICES=", NULL },
    /* HIP counts what ROCr left. */
    { "4,5", "0,3", NULL, "HIP_VISIBLE_DEVICES=0,3",
      "HIP shows 1 of 2 GPUs, in this order; the list ends at '3', which is none" },
    { "", "0", NULL, "HIP_VISIBLE_DEVICES=0",
      "HIP shows 0 of 0 GPUs, in this order; the list ends at '0', which is none" },
    { NULL, NULL, "2,3", "CUDA_VISIBLE_DEVICES=2,3",
      "read where HIP_VISIBLE_DEVICES is not set: HIP shows 2 of 8 GPUs, in this order" },
    { NULL, "", "2,3", "CUDA_VISIBLE_DEVICES=2,3",
      "read where HIP_VISIBLE_DEVICES is not set: HIP shows 2 of 8 GPUs, in this order" },
    { NULL, "1", "2,3", "CUDA_VISIBLE_DEVICES=2,3", "not read by HIP, as HIP_VISIBLE_DEVICES is set" },
};

START_TEST(visible_devices)
{
    put_machine(8, 90402);
    if (visible[_i].rocr)
        setenv("ROCR_VISIBLE_DEVICES", visible[_i].rocr, 1);
    if (visible[_i].hip)
        setenv("HIP_VISIBLE_DEVICES", visible[_i].hip, 1);
    if (visible[_i].cuda)
        setenv("CUDA_VISIBLE_DEVICES", visible[_i].cuda, 1);
    look();
    if (visible[_i].says)
        expect(visible[_i].what, visible[_i].says);
    else
        ck_assert_ptr_null(said(visible[_i].what));
}
END_TEST

/* Where the kernel's list can't be seen nothing is counted. */
START_TEST(visible_devices_uncounted)
{
    setenv("HIP_VISIBLE_DEVICES", "0,99", 1);
    look();
    expect("HIP_VISIBLE_DEVICES=0,99", "HIP shows these GPUs alone, in this order");
}
END_TEST

START_TEST(opencls_list)
{
    put_machine(8, 90402);
    setenv("GPU_DEVICE_ORDINAL", "1", 1);
    look();
    expect("GPU_DEVICE_ORDINAL=1", "not read by HIP: it is OpenCL's (HIP_VISIBLE_DEVICES is HIP's)");
}
END_TEST

static const struct {
    const char *value, *says;
    bool misleads;
} overridden[] = {
    { "11.0.0", "HIP's arch is gfx1100, the GPU's own is gfx1103: what is tuned here is kept and used as gfx1100's",
      true },
    { "11.0.3", "HIP's arch is gfx1103, the GPU's own", false },
    { "9.0.10", "HIP's arch is gfx90a, the GPU's own is gfx1103: what is tuned here is kept and used as gfx90a's",
      true },
    { "11.0", "not of the form MAJOR.MINOR.STEPPING (11.0.0): ROCr refuses the GPU", false },
    { "gfx1100", "not of the form MAJOR.MINOR.STEPPING (11.0.0): ROCr refuses the GPU", false },
    { "11.0.0x", "not of the form MAJOR.MINOR.STEPPING (11.0.0): ROCr refuses the GPU", false },
};

START_TEST(override)
{
    char what[80];
    put_machine(2, 110003);
    setenv("HSA_OVERRIDE_GFX_VERSION", overridden[_i].value, 1);
    look();
    snprintf(what, sizeof(what), "HSA_OVERRIDE_GFX_VERSION=%s", overridden[_i].value);
    expect(what, overridden[_i].says);
    ck_assert_int_eq(n_facts, 4); /* once for both */
    ck_assert_int_eq(facts[3].misleads, overridden[_i].misleads);
    for (int i = 0; i < 3; i++)
        ck_assert(!facts[i].misleads);
}
END_TEST

/* Each node may have one of its own; node 2 is the second GPU. */
START_TEST(override_of_a_node)
{
    put_machine(2, 110003);
    setenv("HSA_OVERRIDE_GFX_VERSION_2", "11.0.2", 1);
    look();
    expect("HSA_OVERRIDE_GFX_VERSION_2=11.0.2",
           "HIP's arch is gfx1102, the GPU's own is gfx1103: what is tuned here is kept and used as gfx1102's");
    ck_assert_int_eq(n_facts, 4);
    setenv("HSA_OVERRIDE_GFX_VERSION", "11.0.0", 1);
    look();
    ck_assert_int_eq(n_facts, 5);
    ck_assert_ptr_nonnull(said("HSA_OVERRIDE_GFX_VERSION=11.0.0"));
}
END_TEST

START_TEST(override_without_kernel)
{
    setenv("HSA_OVERRIDE_GFX_VERSION", "11.0.0", 1);
    look();
    expect("HSA_OVERRIDE_GFX_VERSION=11.0.0",
           "HIP's arch is gfx1100, the GPU's own is not known: what is tuned here is kept and used as gfx1100's");
}
END_TEST

/* More than there is room for: what fits, and nothing behind it. */
START_TEST(little_room)
{
    put_machine(8, 90402);
    facts[2].what[0] = 'x';
    ck_assert_int_eq(rfg_amd_facts(root, facts, 2), 2);
    ck_assert_int_eq(facts[2].what[0], 'x');
}
END_TEST

int main(void)
{
    Suite *s = suite_create("amd_facts");
    TCase *tc = test_case(s, "facts", begin, teardown);
    tcase_set_timeout(tc, 30);
    ADD_TESTS(tc, all_is_well, archs, no_driver, container_without_devices, driver_without_gpus, no_permission,
              other_vendors_nodes, visible_devices_uncounted, opencls_list, override_of_a_node, override_without_kernel,
              little_room);
    ADD_LOOPS(tc, sizeof(visible) / sizeof(visible[0]), visible_devices);
    ADD_LOOPS(tc, sizeof(overridden) / sizeof(overridden[0]), override);
    return run_suite(s);
}
