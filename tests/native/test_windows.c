/*
 * Tests of windows.c under sanitizers: rings that hold any bytes, at the very end of a mapping whose next page cannot
 * be touched. Whether the sums are right is tested from Python, against agent/core/window.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "../../native/windows.c"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned failed, checks;
static uint64_t state = 88172645463325252u;

static void check(int holds, int line, const char *what)
{
    checks++;
    if (!holds) {
        failed++;
        printf("test_windows.c:%d: %s\n", line, what);
    }
}
#define CHECK(holds) check((holds), __LINE__, #holds)

static uint64_t chance(void) /* xorshift64: the same numbers each time */
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

enum { RAW = 40, MEMORY = 20, SLOTS = 2, START = 4096 };

static pl_geometry laid_out(void)
{
    pl_geometry g = {.first_slot_offset = START, .max_slots = SLOTS, .raw_length = RAW, .memory_length = MEMORY};

    g.raw_offset = sizeof(pl_slot_header);
    g.memory_offset = g.raw_offset + RAW * (uint32_t)sizeof(pl_sample);
    g.slot_stride = g.memory_offset + MEMORY * sizeof(pl_memory_row);
    return g;
}

/* Stamps that rise by about a second, or anything at all; statuses and flags that are mostly good. */
static void fill(unsigned char *rings, const pl_geometry *g, int is_wild)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        unsigned char *base = rings + g->first_slot_offset + slot * g->slot_stride;
        pl_slot_header *header = (pl_slot_header *)(void *)base;

        for (uint64_t at = 0; at < g->slot_stride; at += sizeof state)
            memcpy(base + at, (uint64_t[]){chance()}, sizeof state);
        header->raw_head = chance() % (3 * RAW);
        header->memory_head = is_wild ? chance() : chance() % (3 * MEMORY);
        for (uint32_t row = 0; row < RAW; row++) {
            pl_sample *sample = (pl_sample *)(void *)(base + g->raw_offset) + row;

            sample->status = chance() % 8 ? PL_OK : PL_E_PARSE;
            if (!is_wild)
                sample->monotonic_ns = row * 1000000000u + chance() % 4;
        }
        for (uint32_t row = 0; row < MEMORY; row++) {
            pl_memory_row *memory = (pl_memory_row *)(void *)(base + g->memory_offset) + row;

            memory->status = chance() % 8 ? PL_OK : PL_E_IO;
            if (!is_wild)
                memory->monotonic_ns = row * 2000000000u + chance() % 4;
        }
    }
}

static void test_any_bytes(unsigned char *rings, const pl_geometry *g, uint64_t bytes)
{
    static const int64_t ENDS[] = {0, 39000000000, 60000000000, INT64_MAX, INT64_MIN, -1};
    static const uint32_t SLOT_NUMBERS[] = {1, 0, 1};
    pl_rules rules = {.cpu_window_ns = 20000000000,
                      .rate_window_ns = 5000000000,
                      .min_rate_ns = 1000000000,
                      .max_step_ns = 5000000000,
                      .memory_window_ns = 20000000000,
                      .memory_rows_ns = 30000000000,
                      .memory_max_step_ns = 5000000000,
                      .capacity_millicores = 2e3,
                      .limit_millicores = 2.1e3,
                      .percentile = 0.75,
                      .memory_waiting_ratio = 0.1};
    pl_reader *reader = NULL;

    CHECK(pl_reader_open(rings, bytes, g, &reader) == PL_OK);
    for (int round = 0; round < 400; round++) {
        pl_cpu_sums cpu[3];
        pl_memory_sums memory[3];
        pl_minute_sums minute[3];
        uint8_t intact[3] = {9, 9, 9};
        int64_t end_ns = ENDS[chance() % 6];
        uint32_t rows = (uint32_t)(chance() % (2 * RAW));

        fill(rings, g, round % 2);
        CHECK(pl_sum_cpu(reader, SLOT_NUMBERS, 3, rows, end_ns, &rules, cpu, intact) == PL_OK);
        CHECK(intact[0] == 1 && intact[1] == 1 && intact[2] == 1);
        CHECK(memcmp(&cpu[0], &cpu[2], sizeof cpu[0]) == 0);
        CHECK(cpu[0].rows <= rows && cpu[0].rows < RAW && cpu[0].rates <= cpu[0].readings);
        CHECK(pl_sum_memory(reader, SLOT_NUMBERS, 3, rows, end_ns, &rules, memory, intact) == PL_OK);
        CHECK(memory[0].rows < MEMORY && memory[0].sized <= memory[0].readings);
        CHECK(memcmp(&memory[0], &memory[2], sizeof memory[0]) == 0);
        CHECK(pl_sum_minute(reader, SLOT_NUMBERS, 3, rows, rows, end_ns, &rules, minute, intact) == PL_OK);
        CHECK(memcmp(&minute[0], &minute[2], sizeof minute[0]) == 0);
        CHECK(minute[0].covered_ns >= 0);
    }
    pl_reader_close(reader);
}

static void test_geometry_that_does_not_fit(unsigned char *rings, const pl_geometry *g, uint64_t bytes)
{
    pl_reader *reader = NULL;
    pl_geometry wrong[] = {*g, *g, *g, *g, *g, *g, *g};

    wrong[0].max_slots++;
    wrong[1].raw_length = 1;
    wrong[2].memory_length++;
    wrong[3].raw_offset = 8;
    wrong[4].slot_stride += 4;
    wrong[5].first_slot_offset = UINT64_MAX - 7;
    wrong[6].max_slots = 0;
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(pl_reader_open(rings, bytes, &wrong[i], &reader) == PL_E_ARG && reader == NULL);
    CHECK(pl_reader_open(NULL, bytes, g, &reader) == PL_E_ARG);
    CHECK(pl_reader_open(rings, bytes - 1, g, &reader) == PL_E_ARG);
    pl_reader_close(NULL);
}

static void test_slot_out_of_range(unsigned char *rings, const pl_geometry *g, uint64_t bytes)
{
    pl_reader *reader = NULL;
    uint32_t slots[] = {0, SLOTS};

    CHECK(pl_reader_open(rings, bytes, g, &reader) == PL_OK);
    CHECK(pl_sum_cpu(reader, slots, 2, 1, 0, NULL, NULL, NULL) == PL_E_ARG);
    CHECK(pl_sum_memory(reader, slots, 2, 1, 0, NULL, NULL, NULL) == PL_E_ARG);
    CHECK(pl_sum_minute(reader, slots, 2, 1, 1, 0, NULL, NULL, NULL) == PL_E_ARG);
    CHECK(pl_sum_cpu(reader, NULL, 0, 1, 0, NULL, NULL, NULL) == PL_OK);
    pl_reader_close(reader);
}

int main(void)
{
    pl_geometry g = laid_out();
    uint64_t bytes = g.first_slot_offset + SLOTS * g.slot_stride;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    unsigned char *mapped = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (mapped == MAP_FAILED || mprotect(mapped + whole, page, PROT_NONE) != 0)
        return 2;
    test_any_bytes(mapped + (whole - bytes), &g, bytes);
    test_geometry_that_does_not_fit(mapped + (whole - bytes), &g, bytes);
    test_slot_out_of_range(mapped + (whole - bytes), &g, bytes);
    printf("%u checks, %u failed\n", checks, failed);
    return failed != 0;
}
