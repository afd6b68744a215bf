/* SPDX-License-Identifier: MIT
 *
 * Packs: a pack reads as it was written, and no other file is accepted as one. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dispatch/pack/pack.h"
#include "ops/gemm/gemm.h"
#include "tests/suite.h"
#include "tests/tempfiles.h"

#define N      3
#define HEADER 120 /* bytes */
static char path[4096];
static struct rfg_pack_code codes[N];
static struct rfg_blob blobs[N];
static const struct rfg_blob *blob_list[N];
static struct rfg_row row;

static void make_codes(void)
{
    static const char *const texts[N] = { "\177ELF of the first", "", "\177ELF of the third, which is longer" };
    for (int i = 0; i < N; i++) {
        struct rfg_kernel k = { .source = i < 2 ? "gemm/gpu/any/portable.hip" : "norm/rows.hip", .entry = "entry" };
        struct rfg_reason why;
        rfg_kernel_macro(&k, "ROWS", 2);
        rfg_kernel_macro(&k, "WAVES", i);
        memset(&codes[i], 0, sizeof(codes[i]));
        ck_assert_msg(rfg_pack_name(&codes[i], &k, &why), "%s", why.text);
        strcpy(codes[i].target, i < 1 ? "gfx90a" : "gfx942");
        strcpy(codes[i].compiler, "a compiler, \"quoted\"");
        rfg_jit_source_hash(k.source, codes[i].source_hash);
        blobs[i] = (struct rfg_blob){ (void *)(uintptr_t)texts[i], strlen(texts[i]) };
        blob_list[i] = &blobs[i];
        codes[i].size = blobs[i].size;
        rfg_sha256_hex(codes[i].code_hash, &texts[i], &blobs[i].size, 1);
    }
}

static void make_row(void)
{
    struct rfg_reason why;
    int p[RFG_MAX_PARAMS];
    row = (struct rfg_row){ .arch = "gfx942",
                            .cu_count = 304,
                            .median_us = 1.25,
                            .samples = 9,
                            .error_bound = 1,
                            .date = "2026-11-01T00:00:00Z",
                            .version = RFG_VERSION,
                            .device = "AMD, Instinct",
                            .seed = UINT64_MAX,
                            .how = RFG_SOURCE_MEASURED };
    ck_assert(rfg_problem_parse(&row.problem, "gemm bf16,bf16->bf16 M=8 N=2 K=64 bias=1", &why));
    for (int i = 0; i < gemm_portable.n_params; i++)
        p[i] = gemm_portable.params[i].values[0];
    rfg_row_set_config(&row, &gemm_portable, p, false);
}

static void write_pack(void)
{
    ck_assert_msg(rfg_pack_write(path, codes, blob_list, N, &row, 1) == RFG_OK, "%s", rfg_last_error());
}

static void setup_pack(void)
{
    setup();
    snprintf(path, sizeof(path), "%s/model.rfgpack", root);
    make_codes();
    make_row();
    write_pack();
}

static struct rfg_pack *open_pack(void)
{
    struct rfg_pack *p;
    ck_assert_msg(rfg_pack_open(&p, path) == RFG_OK, "%s", rfg_last_error());
    return p;
}

static void refused(const char *why)
{
    struct rfg_pack *p;
    ck_assert_int_eq(rfg_pack_open(&p, path), RFG_ERROR_DATABASE);
    ck_assert_ptr_null(p);
    ck_assert_msg(strstr(rfg_last_error(), path) && strstr(rfg_last_error(), why), "'%s' does not say '%s'",
                  rfg_last_error(), why);
}

START_TEST(holds_what_was_written)
{
    size_t n, n_rows;
    struct rfg_pack *p = open_pack();
    const struct rfg_pack_code *got = rfg_pack_codes(p, &n);
    const struct rfg_row *rows = rfg_pack_rows(p, &n_rows);
    ck_assert_uint_eq(n, N);
    ck_assert_uint_eq(n_rows, 1);
    ck_assert_mem_eq(rows, &row, sizeof(row)); /* bit by bit */
    ck_assert_str_eq(rfg_pack_version(p), rfg_version());
    for (int i = 0; i < N; i++) {
        const struct rfg_blob *b, *again;
        ck_assert_mem_eq(&got[i], &codes[i], sizeof(codes[i]));
        ck_assert_int_eq(rfg_pack_load(p, &got[i], &b), RFG_OK);
        ck_assert_uint_eq(b->size, blobs[i].size);
        ck_assert_mem_eq(b->data, blobs[i].data, blobs[i].size);
        ck_assert_int_eq(rfg_pack_load(p, &got[i], &again), RFG_OK);
        ck_assert_ptr_eq(b, again); /* modules are shared by it */
    }
    rfg_pack_close(&p);
    /* The same again is the same file. */
    size_t size, size2;
    char *first = rfg_read_file(path, &size);
    write_pack();
    char *second = rfg_read_file(path, &size2);
    ck_assert_uint_eq(size, size2);
    ck_assert_mem_eq(first, second, size);
    free(first);
    free(second);
}
END_TEST

START_TEST(finds_by_text_entry_and_macros)
{
    struct rfg_pack *p = open_pack();
    struct rfg_kernel k = { .source = "gemm/gpu/any/portable.hip", .entry = "entry" };
    rfg_kernel_macro(&k, "ROWS", 2);
    rfg_kernel_macro(&k, "WAVES", 1);
    const struct rfg_pack_code *c = rfg_pack_find(p, "gfx942", &k);
    ck_assert_ptr_nonnull(c);
    ck_assert_str_eq(c->macros, "ROWS=2 WAVES=1");
    ck_assert_ptr_null(rfg_pack_find(p, "gfx90a", &k)); /* which has WAVES=0 */
    ck_assert_ptr_null(rfg_pack_find(p, "gfx950", &k));
    k.macros[0].value = 3;
    ck_assert_ptr_null(rfg_pack_find(p, "gfx942", &k));
    k.macros[0].value = 2;
    k.entry = "another";
    ck_assert_ptr_null(rfg_pack_find(p, "gfx942", &k));
    ck_assert_int_eq(rfg_pack_check_target(p, "gfx942"), RFG_OK);
    ck_assert_int_eq(rfg_pack_check_target(p, "gfx1100"), RFG_ERROR_DATABASE);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "has no code for gfx1100"));
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "(has gfx90a, gfx942)"));
    rfg_pack_close(&p);
}
END_TEST

/* A kernel's text says how the host must call it. */
START_TEST(another_builds_code_is_refused)
{
    codes[2].source_hash[5] ^= 1;
    write_pack();
    struct rfg_pack *p = open_pack();
    ck_assert_int_eq(rfg_pack_check_target(p, "gfx90a"), RFG_OK);
    ck_assert_int_eq(rfg_pack_check_target(p, "gfx942"), RFG_ERROR_DATABASE);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "made by another build"));
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "norm/rows.hip"));
    rfg_pack_close(&p);
    make_codes();
    strcpy(codes[2].source, "norm/unheard_of.hip");
    write_pack();
    p = open_pack();
    ck_assert_int_eq(rfg_pack_check_target(p, "gfx942"), RFG_ERROR_DATABASE);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "does not have"));
    rfg_pack_close(&p);
}
END_TEST

/* Each byte, changed in one of its bits, is noticed: when the file is opened, or when the code is used. */
START_TEST(every_byte_is_covered)
{
    size_t size;
    char *bytes = rfg_read_file(path, &size);
    ck_assert_uint_gt(size, 500);
    int fd = open(path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    for (size_t i = 0; i < size; i++) {
        struct rfg_pack *p;
        const struct rfg_blob *b;
        int bit = 1 << (i % 8);
        char changed = (char)(bytes[i] ^ bit);
        ck_assert_int_eq(pwrite(fd, &changed, 1, (off_t)i), 1);
        bool noticed = rfg_pack_open(&p, path) == RFG_ERROR_DATABASE;
        ck_assert(!noticed || strstr(rfg_last_error(), path));
        size_t n = 0;
        const struct rfg_pack_code *c = noticed ? NULL : rfg_pack_codes(p, &n);
        for (size_t k = 0; k < n; k++)
            noticed |= rfg_pack_load(p, &c[k], &b) == RFG_ERROR_DATABASE && !b;
        rfg_pack_close(&p);
        ck_assert_msg(noticed, "byte %zu of %zu, bit %d", i, size, bit);
        ck_assert_int_eq(pwrite(fd, &bytes[i], 1, (off_t)i), 1);
    }
    for (size_t cut = size; cut-- > 0;) {
        ck_assert_int_eq(ftruncate(fd, (off_t)cut), 0);
        refused(cut < HEADER ? "not a pack" : "truncated");
    }
    ck_assert_int_eq(pwrite(fd, bytes, size, 0), (ssize_t)size);
    struct rfg_pack *p = open_pack();
    rfg_pack_close(&p);
    ck_assert_int_eq(pwrite(fd, "", 1, (off_t)size), 1);
    refused("damaged: has ");
    close(fd);
    free(bytes);
}
END_TEST

static void patch(size_t at, char value)
{
    FILE *f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    fseek(f, (long)at, SEEK_SET);
    fputc(value, f);
    fclose(f);
}

START_TEST(other_versions_are_refused)
{
    patch(8, 2);
    refused("pack format 2: must be 1");
    patch(8, 1);
    patch(12, RFG_DB_SCHEMA + 1);
    refused("rows of schema 5: must be 4 to 4");
    patch(12, 3); /* windows and gates were said otherwise */
    refused("rows of schema 3: must be 4 to 4");
    patch(12, RFG_DB_SCHEMA);
    struct rfg_pack *p = open_pack();
    rfg_pack_close(&p);
    strcpy(row.variant, "gemm_of_the_future");
    write_pack();
    refused("variant: 'gemm_of_the_future': gemm has no such variant (written by rfg " RFG_VERSION);
    put_file("model.rfgpack", "SQLite format 3");
    refused("not a pack");
}
END_TEST

START_TEST(bad_indexes_are_refused)
{
    struct rfg_pack_code keep = codes[0];
    codes[0] = codes[1];
    write_pack();
    refused("must be in order, each there once");
    codes[0] = keep;
    strcpy(codes[1].compiler, "with\x1b[31m colours");
    write_pack();
    refused("can't be printed");
    make_codes();
    codes[0].size++;
    write_pack();
    refused("not as large as it says");
}
END_TEST

/* Code is run: whose is it? */
START_TEST(only_ours_is_opened)
{
    char link[4200];
    ck_assert_int_eq(chmod(path, 0664), 0);
    refused("can be written by others");
    ck_assert_int_eq(chmod(path, 0646), 0);
    refused("can be written by others");
    ck_assert_int_eq(chmod(path, 0444), 0);
    struct rfg_pack *p = open_pack();
    rfg_pack_close(&p);
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(path, 65534, 65534), 0);
        refused("belongs to another user");
        ck_assert_int_eq(chown(path, 0, 0), 0);
    }
    snprintf(link, sizeof(link), "%s.link", path); /* the user named it: what it leads to counts */
    ck_assert_int_eq(symlink(path, link), 0);
    ck_assert_int_eq(rfg_pack_open(&p, link), RFG_OK);
    rfg_pack_close(&p);
    ck_assert_int_eq(unlink(path), 0);
    refused("cannot open: No such file");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    refused("is no regular file");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    refused("is no regular file");
}
END_TEST

START_TEST(a_write_that_fails_leaves_the_old_file)
{
    size_t size, size2;
    char *before = rfg_read_file(path, &size);
    if (geteuid() != 0 && chmod(root, 0500) == 0) {
        ck_assert_int_eq(rfg_pack_write(path, codes, blob_list, N, &row, 1), RFG_ERROR_IO);
        ck_assert_int_eq(chmod(root, 0700), 0);
    }
    char *nowhere = rfg_asprintf("%s/no/such/dir/x.rfgpack", root);
    ck_assert_int_eq(rfg_pack_write(nowhere, codes, blob_list, N, &row, 1), RFG_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), nowhere));
    free(nowhere);
    char *after = rfg_read_file(path, &size2);
    ck_assert_uint_eq(size, size2);
    ck_assert_mem_eq(before, after, size);
    free(before);
    free(after);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("packs");
    TCase *tc = test_case(s, "pack", setup_pack, teardown);
    ADD_TESTS(tc, holds_what_was_written, finds_by_text_entry_and_macros, another_builds_code_is_refused,
              every_byte_is_covered, other_versions_are_refused, bad_indexes_are_refused, only_ours_is_opened,
              a_write_that_fails_leaves_the_old_file);
    return run_suite(s);
}
