/*
 * Plimsoll's windows: sums over the newest rows of many slots, in one pass per slot.
 *
 * What is summed is defined by agent/core/window (cpu.cpu_sums, memory.memory_sums, minute_row.minute_sums): the same
 * numbers to the last bit, and property tests hold the two together. What follows from the sums is told there alone.
 * As the sampler: no Python.h, no stdio, no threads, no global state, no allocation after pl_reader_open. Build without
 * contraction of floating-point expressions (-ffp-contract=off): a fused multiply rounds otherwise.
 *
 * Rows are read while the sampler may write: each slot is asked afterwards whether it was overtaken.
 */
#ifndef PLIMSOLL_WINDOWS_H
#define PLIMSOLL_WINDOWS_H

#include "sampler.h"

/* cffi:begin */
typedef struct pl_reader pl_reader; /* opaque; one thread at a time */

typedef struct pl_rules { /* WindowPolicy of agent/core/window/policy.py, times in ns */
    int64_t cpu_window_ns;
    int64_t rate_window_ns;
    int64_t min_rate_ns; /* at most the rate window */
    int64_t max_step_ns;
    int64_t memory_window_ns;
    int64_t memory_rows_ns; /* of cold file cache; at least the memory window */
    int64_t memory_max_step_ns;
    double capacity_millicores;
    double limit_millicores;
    double percentile;
    double memory_waiting_ratio;
} pl_rules;

typedef struct pl_cpu_sums { /* CpuSums of agent/core/window/cpu.py, which says what each field is */
    int64_t rows;
    int64_t is_seen;
    int64_t clock;
    int64_t too_far_apart;
    int64_t counter_reset;
    int64_t implausible;
    int64_t read_failed;
    int64_t parse;
    int64_t readings;
    int64_t span_ns;
    int64_t covered_ns;
    int64_t observed_ns;
    int64_t has;
    int64_t last_has;
    int64_t is_last_good;
    int64_t waiting_usec;
    int64_t waiting_ns;
    int64_t throttled_usec;
    int64_t throttled_ns;
    int64_t nr_periods;
    int64_t nr_throttled;
    int64_t last_waiting_usec;
    int64_t last_waiting_ns;
    int64_t last_throttled_usec;
    int64_t last_throttled_ns;
    int64_t good_pairs;
    int64_t rates;
    int64_t adjusted_rates;
    double last_usage_millicores;
    double burst_millicores;
    double usage_rank_millicores;
    double usage_peak_millicores;
    double adjusted_rank_millicores;
    double adjusted_peak_millicores;
} pl_cpu_sums;

typedef struct pl_stall_sums { /* StallSums of agent/core/window/memory.py */
    int64_t known_ns;
    int64_t waited_usec;
    int64_t is_usable;
} pl_stall_sums;

typedef struct pl_cold_sums { /* ColdSums of agent/core/window/cold_file.py */
    int64_t rows;
    int64_t oldest_ns;
    int64_t paused_ns;
    int64_t observed_ns;
    int64_t active_bytes;
    int64_t inactive_bytes;
    int64_t is_waiting;
    double refaulted_pages;
} pl_cold_sums;

typedef struct pl_memory_sums { /* MemorySums of agent/core/window/memory.py */
    int64_t rows;
    int64_t is_seen;
    int64_t readings;
    int64_t span_ns;
    int64_t has_current;
    int64_t current_bytes;
    int64_t has_working_set;
    int64_t working_set_bytes;
    int64_t anon_bytes;
    int64_t has_lifetime_peak;
    int64_t lifetime_peak_bytes;
    int64_t sized;
    int64_t working_set_peak_bytes;
    int64_t paused_ns;
    int64_t observed_ns;
    int64_t pressure_rows;
    int64_t io_rows;
    int64_t event_rows;
    int64_t oom_kills;
    int64_t high_events;
    double working_set_rank_bytes;
    pl_stall_sums some;
    pl_stall_sums full;
    pl_stall_sums io;
    pl_cold_sums cold;
} pl_memory_sums;

typedef struct pl_minute_sums { /* MinuteSums of agent/core/window/minute_row.py */
    int64_t covered_ns;
    int64_t has;
    int64_t memory_has;
    int64_t sized;
    int64_t working_set_peak_bytes;
    double used_usec;
    double waiting_usec;
    double waiting_ns;
    double throttled_usec;
    double throttled_ns;
    double peak_millicores;
    double burst_millicores;
} pl_minute_sums;

/* rings as for pl_open; they are only read. Free with pl_reader_close. PL_E_ARG (geometry does not fit), PL_E_NOMEM. */
int pl_reader_open(const void *rings, uint64_t memory_bytes, const pl_geometry *geometry, pl_reader **out);
void pl_reader_close(pl_reader *r); /* NULL is fine */

/*
 * Sum up the newest rows of each of these slots. out and is_intact have count entries; where is_intact is 0 the sampler
 * overtook the reading, or the slot went to another cgroup meanwhile, and the entry means nothing.
 * PL_E_ARG: a slot out of range; nothing is summed up.
 */
int pl_sum_cpu(pl_reader *r, const uint32_t *slots, uint32_t count, uint32_t rows, int64_t end_ns,
               const pl_rules *rules, pl_cpu_sums *out, uint8_t *is_intact);
int pl_sum_memory(pl_reader *r, const uint32_t *slots, uint32_t count, uint32_t rows, int64_t end_ns,
                  const pl_rules *rules, pl_memory_sums *out, uint8_t *is_intact);
/* Of the minute (start, start + 60 s]. */
int pl_sum_minute(pl_reader *r, const uint32_t *slots, uint32_t count, uint32_t raw_rows, uint32_t memory_rows,
                  int64_t start_ns, const pl_rules *rules, pl_minute_sums *out, uint8_t *is_intact);
/* cffi:end */

#endif
