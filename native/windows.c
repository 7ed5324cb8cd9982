/* The sums behind windows.h, which is their documentation. */
#include "windows.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MINUTE_NS = 60000000000;
static const int64_t SHORT_NS = 200000000; /* as in agent/core/window/steps.py, with TICK_NS and the factor */
static const int64_t TICK_NS = 10000000;
static const double MILLICORES_PER_USEC_PER_NS = 1e6;
/* How many rows ahead one is fetched, a cache line each. Measured over the rings of 250 slots: a seventh less time with
 * 24, a tenth with 8. */
static const uint32_t PREFETCH_DISTANCE = 24;

enum { GOOD, CLOCK, TOO_FAR_APART, COUNTER_RESET, IMPLAUSIBLE, GAPS };

/* A good reading, and the pair that ends in it; of the first reading that pair is all 0. */
typedef struct step {
    int64_t axis_ns;
    uint64_t usage_usec;
    int64_t waited_usec; /* of this pair and all before it, where waiting is known */
    int64_t waited_ns;
    int64_t elapsed_ns;
    int64_t used_usec;
    int64_t throttled_usec; /* 0 where throttling is not known, as the next three */
    int64_t throttled_ns;
    int64_t nr_periods;
    int64_t nr_throttled;
    double usage_millicores;
    uint32_t has;
    uint32_t segment; /* the oldest reading with no gap between the two */
    uint32_t gap;
} step;

struct pl_reader {
    const unsigned char *base;
    pl_geometry geometry;
    step *steps; /* as many as a raw ring has rows */
    double *usage;
    double *adjusted; /* as many as the longer of both rings has rows */
};

/* The newest rows of one ring of one slot. */
typedef struct view {
    const pl_slot_header *header;
    const uint64_t *head_at;
    const unsigned char *rows;
    uint32_t row_bytes;
    uint32_t length;
    uint32_t generation;
    uint32_t count;
    uint32_t begin; /* where the oldest of them lies */
    uint64_t first;
    uint64_t head;
} view;

/* Differences and sums of what the mapped file holds, which may be anything: they wrap, as numpy's do. */
static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t rise64(uint64_t before, uint64_t after)
{
    return (int64_t)(after - before);
}

static int64_t rise32(uint32_t before, uint32_t after)
{
    return (int32_t)(after - before);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static double lower(double a, double b)
{
    return a < b ? a : b;
}

/* ---- views ---- */

static view view_of(const pl_slot_header *header, const uint64_t *head_at, const unsigned char *ring,
                    uint32_t row_bytes, uint32_t length, uint32_t rows)
{
    view v = {.header = header, .head_at = head_at, .rows = ring, .row_bytes = row_bytes, .length = length};
    uint64_t count;

    v.generation = __atomic_load_n(&header->generation, __ATOMIC_ACQUIRE);
    v.head = __atomic_load_n(head_at, __ATOMIC_ACQUIRE);
    /* One row less than the ring holds: the oldest is the one that the sampler may be writing over. */
    count = v.head < length - 1 ? v.head : length - 1;
    v.count = count < rows ? (uint32_t)count : rows;
    v.first = v.head - v.count;
    v.begin = (uint32_t)(v.first % length);
    return v;
}

static const pl_slot_header *header_at(const pl_reader *r, uint32_t slot)
{
    return (const pl_slot_header *)(const void *)(r->base + r->geometry.first_slot_offset +
                                                  slot * r->geometry.slot_stride);
}

static view raw_view(const pl_reader *r, uint32_t slot, uint32_t rows)
{
    const pl_slot_header *header = header_at(r, slot);

    return view_of(header, &header->raw_head, (const unsigned char *)header + r->geometry.raw_offset, sizeof(pl_sample),
                   r->geometry.raw_length, rows);
}

static view memory_view(const pl_reader *r, uint32_t slot, uint32_t rows)
{
    const pl_slot_header *header = header_at(r, slot);

    return view_of(header, &header->memory_head, (const unsigned char *)header + r->geometry.memory_offset,
                   sizeof(pl_memory_row), r->geometry.memory_length, rows);
}

static const unsigned char *row_at(const view *v, uint32_t index)
{
    uint32_t place = v->begin + index;

    return v->rows + (size_t)(place < v->length ? place : place - v->length) * v->row_bytes;
}

static const pl_sample *raw_row(const view *v, uint32_t index)
{
    return (const pl_sample *)(const void *)row_at(v, index);
}

static const pl_memory_row *memory_row(const view *v, uint32_t index)
{
    return (const pl_memory_row *)(const void *)row_at(v, index);
}

static uint8_t is_intact(const view *v)
{
    uint64_t head;

    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* what was read stays before what is asked now */
    head = __atomic_load_n(v->head_at, __ATOMIC_ACQUIRE);
    /* The head before the generation: a slot given away gets its generation first, then its heads. */
    return __atomic_load_n(&v->header->generation, __ATOMIC_ACQUIRE) == v->generation && v->head <= head &&
           head < v->first + v->length;
}

/* ---- percentile ---- */

/* Put in order what stands at place k: nothing before it is larger, nothing after it is smaller. */
static double nth(double *values, uint32_t count, uint32_t k)
{
    int64_t low = 0, high = (int64_t)count - 1, place = k;

    while (low < high) {
        double a = values[low], b = values[low + (high - low) / 2], c = values[high];
        double pivot = a < b ? (b < c ? b : (a < c ? c : a)) : (a < c ? a : (b < c ? c : b));
        int64_t i = low, j = high;

        while (i <= j) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i <= j) {
                double moved = values[i];

                values[i++] = values[j];
                values[j--] = moved;
            }
        }
        if (place <= j)
            high = j;
        else if (place >= i)
            low = i;
        else
            break;
    }
    return values[k];
}

static bool are_equal(const double *values, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (values[i] != values[0])
            return false;
    }
    return true;
}

/* As agent/core/numbers/percentile.py; count is above 0, and the values change places. */
static double percentile_of(double *values, uint32_t count, double ratio)
{
    double rank = ratio * (double)(count - 1), low, high;
    uint32_t below = (uint32_t)rank;

    if (are_equal(values, count)) /* mostly all 0, of one that does nothing: putting equals in order takes longest */
        return values[0];
    low = high = nth(values, count, below);
    if (below + 1 < count) {
        high = values[below + 1];
        for (uint32_t i = below + 2; i < count; i++)
            high = lower(values[i], high);
    }
    return lower(low + (rank - (double)below) * (high - low), high);
}

static double largest(const double *values, uint32_t count)
{
    double found = values[0];

    for (uint32_t i = 1; i < count; i++)
        found = values[i] > found ? values[i] : found;
    return found;
}

/* ---- pairs of readings ---- */

typedef struct unread {
    int64_t after_ns; /* only those later than this are counted */
    int64_t failed;
    int64_t parse;
    int64_t oldest_ns; /* of all rows between the two moments, good or failed */
    bool is_seen;
} unread;

static uint32_t gap_of(int64_t elapsed_ns, int64_t used_usec, double *usage_millicores, const pl_rules *rules)
{
    double used = (double)used_usec * MILLICORES_PER_USEC_PER_NS;

    *usage_millicores = used / (double)most(elapsed_ns, 1);
    if (elapsed_ns <= 0)
        return CLOCK;
    if (elapsed_ns > rules->max_step_ns)
        return TOO_FAR_APART;
    if (used_usec < 0)
        return COUNTER_RESET;
    if (*usage_millicores <= rules->limit_millicores)
        return GOOD;
    /* A short pair may hold one tick more than its time. */
    if (elapsed_ns >= SHORT_NS || used > rules->capacity_millicores * (double)(elapsed_ns + TICK_NS))
        return IMPLAUSIBLE;
    *usage_millicores = rules->limit_millicores;
    return GOOD;
}

/* Fill in throttling and waiting of a good pair. */
static void explain_pair(step *s, const pl_sample *before, const pl_sample *after)
{
    uint32_t has = before->has & after->has;
    int64_t elapsed_usec = s->elapsed_ns / 1000, own_usec = 0;

    if (has & PL_HAS_THROTTLED) {
        int64_t throttled = rise64(before->throttled_usec, after->throttled_usec);
        int64_t periods = rise32(before->nr_periods, after->nr_periods);
        int64_t times = rise32(before->nr_throttled, after->nr_throttled);

        if (throttled >= 0 && periods >= 0 && times >= 0) {
            s->throttled_ns = s->elapsed_ns;
            s->throttled_usec = own_usec = least(throttled, elapsed_usec);
            s->nr_periods = periods;
            s->nr_throttled = times;
            if (times > 0) {
                double share = lower((double)times / (double)most(periods, 1), 1.0);

                own_usec = least(own_usec, (int64_t)(share * (double)elapsed_usec));
            }
        }
    }
    if (has & PL_HAS_PRESSURE) {
        int64_t some = rise64(before->cpu_some_usec, after->cpu_some_usec);

        if (some >= 0) {
            s->waited_ns += s->elapsed_ns;
            s->waited_usec += most(least(some, elapsed_usec) - own_usec, 0);
        }
    }
}

/* Pair the good readings from since_ns (0 = any) to until_ns; gives their number. */
static uint32_t pair_rows(const view *v, int64_t since_ns, int64_t until_ns, const pl_rules *rules, step *steps,
                          unread *u)
{
    uint32_t count = 0;
    bool has_clock_gap = false;
    const pl_sample *before = NULL;

    for (uint32_t index = 0; index < v->count; index++) {
        const pl_sample *row = raw_row(v, index);
        int64_t stamp_ns = (int64_t)row->monotonic_ns;
        step *s = &steps[count];

        if (index + PREFETCH_DISTANCE < v->count)
            __builtin_prefetch(raw_row(v, index + PREFETCH_DISTANCE));
        if (stamp_ns > until_ns || (since_ns > 0 && stamp_ns < since_ns))
            continue;
        if (!u->is_seen) {
            u->is_seen = true;
            u->oldest_ns = stamp_ns;
        }
        if (row->status != PL_OK) {
            if (stamp_ns > u->after_ns) {
                u->failed += row->status != PL_E_PARSE;
                u->parse += row->status == PL_E_PARSE;
            }
            continue;
        }
        /* Field by field: to clear a structure of this size as a whole takes as long as all else here. */
        s->axis_ns = stamp_ns;
        s->usage_usec = row->usage_usec;
        s->has = row->has;
        s->throttled_usec = s->throttled_ns = s->nr_periods = s->nr_throttled = 0;
        if (before == NULL) {
            s->waited_usec = s->waited_ns = s->elapsed_ns = s->used_usec = 0;
            s->usage_millicores = 0.0;
            s->segment = 0;
            s->gap = GOOD;
        } else {
            const step *older = s - 1;

            s->waited_usec = older->waited_usec;
            s->waited_ns = older->waited_ns;
            s->elapsed_ns = minus(stamp_ns, (int64_t)before->monotonic_ns);
            s->used_usec = rise64(before->usage_usec, row->usage_usec);
            s->gap = gap_of(s->elapsed_ns, s->used_usec, &s->usage_millicores, rules);
            s->segment = s->gap == GOOD ? older->segment : count;
            has_clock_gap |= s->gap == CLOCK;
            if (s->gap == GOOD)
                explain_pair(s, before, row);
        }
        before = row;
        count++;
    }
    /* Where a stamp does not rise the older readings are moved back, so that the newest keep theirs. */
    for (uint32_t index = count; has_clock_gap && index-- > 1;)
        steps[index - 1].axis_ns = minus(steps[index].axis_ns, most(steps[index].elapsed_ns, 0));
    return count;
}

/* Number of readings at or before a moment. */
static uint32_t until(const step *steps, uint32_t count, int64_t moment_ns)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (steps[middle].axis_ns <= moment_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The largest rate of the good pairs that end in first..stop - 1, short ones left out beside longer ones; 0 for none.
 */
static double burst_of(const step *steps, uint32_t first, uint32_t stop, int64_t *good_pairs)
{
    double any = 0.0, of_long = 0.0;
    bool has_long = false;

    *good_pairs = 0;
    for (uint32_t index = first; index < stop; index++) {
        const step *s = &steps[index];

        if (s->gap != GOOD)
            continue;
        ++*good_pairs;
        any = s->usage_millicores > any ? s->usage_millicores : any;
        if (s->elapsed_ns >= SHORT_NS) {
            has_long = true;
            of_long = s->usage_millicores > of_long ? s->usage_millicores : of_long;
        }
    }
    return has_long ? of_long : any;
}

/* The exact rates that end in readings first..stop - 1, into usage and adjusted; gives their number. */
static uint32_t sliding_rates(pl_reader *r, uint32_t first, uint32_t stop, const pl_rules *rules, bool *is_adjusted,
                              bool *has_waited)
{
    const step *steps = r->steps;
    uint32_t count = 0, oldest = 0;

    *is_adjusted = *has_waited = false;
    for (uint32_t index = first; index < stop; index++) {
        const step *newer = &steps[index];
        int64_t reach_ns = minus(newer->axis_ns, rules->rate_window_ns), span_ns, known_ns;
        const step *older;
        double usage, waiting;

        while (oldest + 1 < index && steps[oldest + 1].axis_ns <= reach_ns)
            oldest++;
        older = &steps[oldest > newer->segment ? oldest : newer->segment];
        span_ns = minus(newer->axis_ns, older->axis_ns);
        if (span_ns < rules->min_rate_ns)
            continue;
        usage = (double)rise64(older->usage_usec, newer->usage_usec) * MILLICORES_PER_USEC_PER_NS / (double)span_ns;
        usage = lower(usage, rules->limit_millicores);
        known_ns = newer->waited_ns - older->waited_ns;
        *is_adjusted |= known_ns != 0;
        *has_waited |= newer->waited_usec != older->waited_usec;
        waiting = (double)(newer->waited_usec - older->waited_usec) * 1e3 / (double)most(known_ns, 1);
        r->usage[count] = usage;
        r->adjusted[count++] = usage * (1.0 + waiting);
    }
    return count;
}

/* ---- CPU windows ---- */

static void sum_cpu(pl_reader *r, const view *v, int64_t end_ns, const pl_rules *rules, pl_cpu_sums *out)
{
    const step *steps = r->steps, *newest;
    int64_t start_ns = minus(end_ns, rules->cpu_window_ns), gaps[GAPS] = {0}, from_ns, silence_ns;
    unread u = {.after_ns = start_ns};
    uint32_t count, first, lead, rates;
    bool is_adjusted, has_waited;

    memset(out, 0, sizeof *out);
    count = pair_rows(v, 0, end_ns, rules, r->steps, &u);
    out->rows = v->count;
    out->is_seen = u.is_seen;
    out->read_failed = u.failed;
    out->parse = u.parse;
    first = until(steps, count, start_ns);
    lead = first > 0 ? first - 1 : 0; /* the pair that ends in the first reading of the window belongs to it */
    for (uint32_t index = lead + 1; index < count; index++) {
        const step *s = &steps[index];

        gaps[s->gap]++;
        if (first < count) {
            out->covered_ns += s->gap == GOOD ? s->elapsed_ns : 0;
            out->throttled_usec += s->throttled_usec;
            out->throttled_ns += s->throttled_ns;
            out->nr_periods += s->nr_periods;
            out->nr_throttled += s->nr_throttled;
        }
    }
    out->clock = gaps[CLOCK];
    out->too_far_apart = gaps[TOO_FAR_APART];
    out->counter_reset = gaps[COUNTER_RESET];
    out->implausible = gaps[IMPLAUSIBLE];
    if (first == count)
        return;
    newest = &steps[count - 1];
    out->readings = count - first;
    out->span_ns = minus(newest->axis_ns, steps[first].axis_ns);
    if (first > 0 && steps[first].gap == GOOD)
        out->covered_ns -= minus(start_ns, steps[lead].axis_ns);
    from_ns = most(start_ns, least(u.oldest_ns, steps[0].axis_ns));
    silence_ns = minus(end_ns, newest->axis_ns);
    /* Within a step the next reading is not overdue yet. */
    out->observed_ns = minus(minus(end_ns, from_ns), silence_ns <= rules->max_step_ns ? silence_ns : 0);
    for (uint32_t index = first; index < count; index++)
        out->has |= steps[index].has;
    out->last_has = newest->has;
    out->waiting_usec = newest->waited_usec - steps[lead].waited_usec;
    out->waiting_ns = newest->waited_ns - steps[lead].waited_ns;
    if (count > lead + 1 && newest->gap == GOOD) {
        out->is_last_good = 1;
        out->last_usage_millicores = newest->usage_millicores;
        out->last_waiting_usec = newest->waited_usec - newest[-1].waited_usec;
        out->last_waiting_ns = newest->waited_ns - newest[-1].waited_ns;
        out->last_throttled_usec = newest->throttled_usec;
        out->last_throttled_ns = newest->throttled_ns;
    }
    out->burst_millicores = burst_of(steps, lead + 1, count, &out->good_pairs);
    out->rates = rates = sliding_rates(r, first, count, rules, &is_adjusted, &has_waited);
    if (rates == 0)
        return;
    out->usage_peak_millicores = largest(r->usage, rates);
    out->usage_rank_millicores = percentile_of(r->usage, rates, rules->percentile);
    if (is_adjusted) {
        out->adjusted_rates = rates;
        out->adjusted_peak_millicores = has_waited ? largest(r->adjusted, rates) : out->usage_peak_millicores;
        out->adjusted_rank_millicores =
            has_waited ? percentile_of(r->adjusted, rates, rules->percentile) : out->usage_rank_millicores;
    }
}

/* ---- memory windows ---- */

/* What of the time from oldest_ns (or the window's start) to the end lies in pauses longer than a step may be. */
typedef struct pauses {
    int64_t from_ns;
    int64_t newest_ns;
    int64_t paused_ns;
} pauses;

static void pause_until(pauses *p, int64_t moment_ns, int64_t max_step_ns)
{
    int64_t pause_ns = minus(moment_ns, p->newest_ns);

    if (pause_ns > max_step_ns)
        p->paused_ns += pause_ns;
    p->newest_ns = moment_ns;
}

static void add_stall(pl_stall_sums *out, int64_t waited_usec, int64_t elapsed_ns, int64_t max_step_ns)
{
    if (elapsed_ns <= 0 || waited_usec < 0)
        return;
    out->is_usable = 1;
    if (elapsed_ns <= max_step_ns) {
        out->known_ns += elapsed_ns;
        out->waited_usec += least(waited_usec, elapsed_ns / 1000);
    }
}

static bool is_told(const pl_memory_row *row, int64_t end_ns, uint32_t bits)
{
    return (int64_t)row->monotonic_ns <= end_ns && row->status == PL_OK && (row->has & bits) == bits;
}

/* The place of the newest row at or before a moment, among those that are told of; 0 = the first of them, too. */
static uint32_t lead_of(const view *v, int64_t moment_ns, int64_t end_ns, uint32_t bits, bool *is_early)
{
    uint32_t lead = 0;

    *is_early = false;
    for (uint32_t index = v->count; index-- > 0;) {
        const pl_memory_row *row = memory_row(v, index);

        if (!is_told(row, end_ns, bits))
            continue;
        lead = index;
        if ((int64_t)row->monotonic_ns <= moment_ns) {
            *is_early = true;
            break;
        }
    }
    return lead;
}

static void sum_cold(const view *v, int64_t end_ns, const pl_rules *rules, pl_cold_sums *out)
{
    static const uint32_t SIGNALS = PL_HAS_MEMORY | PL_HAS_MEMORY_STAT | PL_HAS_FILE_REFAULTS | PL_HAS_MEMORY_PRESSURE;
    int64_t start_ns = minus(end_ns, rules->memory_rows_ns);
    const pl_memory_row *before = NULL;
    bool is_early;
    uint32_t lead = lead_of(v, start_ns, end_ns, SIGNALS, &is_early);
    pauses p = {0};

    for (uint32_t index = 0; index < v->count; index++) {
        const pl_memory_row *row = memory_row(v, index);
        int64_t stamp_ns = (int64_t)row->monotonic_ns, active, inactive;

        if (!is_told(row, end_ns, SIGNALS))
            continue;
        if (out->rows++ == 0)
            out->oldest_ns = stamp_ns;
        if (index < lead)
            continue;
        active = (int64_t)row->active_file_bytes;
        inactive = (int64_t)row->inactive_file_bytes;
        if (before == NULL) {
            p.newest_ns = start_ns;
            out->active_bytes = active;
            out->inactive_bytes = inactive;
        } else {
            int64_t pages = rise64(before->workingset_refault_file_pages, row->workingset_refault_file_pages);
            int64_t waited_ns =
                (int64_t)((uint64_t)rise64(before->memory_some_usec, row->memory_some_usec) * UINT64_C(1000));
            int64_t elapsed_ns = minus(stamp_ns, (int64_t)before->monotonic_ns);

            out->active_bytes = least(out->active_bytes, active);
            out->inactive_bytes = least(out->inactive_bytes, inactive);
            out->refaulted_pages += (double)most(pages, 0);
            if ((double)waited_ns >= rules->memory_waiting_ratio * (double)most(elapsed_ns, 1))
                out->is_waiting = 1;
        }
        pause_until(&p, most(stamp_ns, start_ns), rules->memory_max_step_ns);
        before = row;
    }
    if (before == NULL)
        return;
    pause_until(&p, end_ns, rules->memory_max_step_ns);
    out->paused_ns = p.paused_ns;
    out->observed_ns = rules->memory_rows_ns;
}

static const pl_memory_row *newest_with(const view *v, uint32_t first, uint32_t newest, int64_t end_ns, uint32_t bits,
                                        const pl_rules *rules)
{
    const pl_memory_row *last = memory_row(v, newest);
    int64_t since_ns = minus((int64_t)last->monotonic_ns, rules->memory_max_step_ns);

    for (uint32_t index = newest + 1; index-- > first;) {
        const pl_memory_row *row = memory_row(v, index);

        if (is_told(row, end_ns, bits) && (row == last || (int64_t)row->monotonic_ns >= since_ns))
            return row;
    }
    return NULL;
}

static int64_t working_set_of(const pl_memory_row *row)
{
    return most(rise64(row->inactive_file_bytes, row->memory_current_bytes), 0);
}

static void sum_memory(pl_reader *r, const view *v, int64_t end_ns, const pl_rules *rules, pl_memory_sums *out)
{
    static const uint32_t SIZED = PL_HAS_MEMORY | PL_HAS_MEMORY_STAT;
    int64_t start_ns = minus(end_ns, rules->memory_window_ns), step_ns = rules->memory_max_step_ns, oldest_ns = 0;
    uint32_t lead, first = UINT32_MAX, newest = 0;
    const pl_memory_row *before = NULL, *counted = NULL, *row;
    bool is_early;
    pauses p = {0};

    memset(out, 0, sizeof *out);
    out->rows = v->count;
    for (uint32_t index = 0; index < v->count && !out->is_seen; index++)
        out->is_seen = (int64_t)memory_row(v, index)->monotonic_ns <= end_ns;
    lead = lead_of(v, start_ns, end_ns, 0, &is_early);
    for (uint32_t index = lead; index < v->count; index++) {
        row = memory_row(v, index);
        if (!is_told(row, end_ns, 0) || (is_early && index == lead))
            continue;
        if (out->readings++ == 0)
            first = index;
        newest = index;
    }
    if (out->readings == 0)
        return;
    oldest_ns = (int64_t)memory_row(v, 0)->monotonic_ns;
    for (uint32_t index = lead; index <= newest; index++) {
        int64_t stamp_ns;

        row = memory_row(v, index);
        if (!is_told(row, end_ns, 0))
            continue;
        stamp_ns = (int64_t)row->monotonic_ns;
        if (before == NULL) {
            p.from_ns = p.newest_ns = most(start_ns, least(oldest_ns, stamp_ns));
        } else {
            int64_t elapsed_ns = minus(stamp_ns, (int64_t)before->monotonic_ns);
            uint32_t has = before->has & row->has;

            if (has & PL_HAS_MEMORY_PRESSURE) {
                add_stall(&out->some, rise64(before->memory_some_usec, row->memory_some_usec), elapsed_ns, step_ns);
                add_stall(&out->full, rise64(before->memory_full_usec, row->memory_full_usec), elapsed_ns, step_ns);
            }
            if (has & PL_HAS_IO_PRESSURE)
                add_stall(&out->io, rise64(before->io_some_usec, row->io_some_usec), elapsed_ns, step_ns);
        }
        pause_until(&p, most(stamp_ns, p.from_ns), step_ns);
        out->pressure_rows += (row->has & PL_HAS_MEMORY_PRESSURE) != 0;
        out->io_rows += (row->has & PL_HAS_IO_PRESSURE) != 0;
        if (row->has & PL_HAS_MEMORY_EVENTS) {
            out->event_rows++;
            if (counted != NULL) { /* rows without the signal are passed over: counters are cumulative */
                out->oom_kills += most(rise32(counted->oom_kill, row->oom_kill), 0);
                out->high_events += most(rise32(counted->high_events, row->high_events), 0);
            }
            counted = row;
        }
        if (index >= first && (row->has & SIZED) == SIZED) {
            int64_t set = working_set_of(row), peak = most((int64_t)row->working_set_peak_bytes, set);

            out->working_set_peak_bytes = out->sized == 0 ? peak : most(out->working_set_peak_bytes, peak);
            r->usage[out->sized++] = (double)set;
        }
        before = row;
    }
    if (before == NULL) /* overtaken since the loop before: what is given means nothing, but it must be given */
        return;
    pause_until(&p, end_ns, step_ns);
    out->paused_ns = p.paused_ns;
    out->observed_ns = minus(end_ns, p.from_ns);
    out->span_ns = most(minus((int64_t)before->monotonic_ns, (int64_t)memory_row(v, first)->monotonic_ns), 0);
    if (out->sized > 0)
        out->working_set_rank_bytes = percentile_of(r->usage, (uint32_t)out->sized, rules->percentile);
    if ((row = newest_with(v, first, newest, end_ns, PL_HAS_MEMORY, rules)) != NULL) {
        out->has_current = 1;
        out->current_bytes = (int64_t)row->memory_current_bytes;
    }
    if ((row = newest_with(v, first, newest, end_ns, SIZED, rules)) != NULL) {
        out->has_working_set = 1;
        out->working_set_bytes = working_set_of(row);
        out->anon_bytes = (int64_t)row->anon_bytes;
    }
    if ((row = newest_with(v, first, newest, end_ns, PL_HAS_MEMORY_PEAK, rules)) != NULL) {
        out->has_lifetime_peak = 1;
        out->lifetime_peak_bytes = (int64_t)row->memory_peak_bytes;
    }
    sum_cold(v, end_ns, rules, &out->cold);
}

/* ---- minutes ---- */

/* Sums of pairs by their share of the minute: whole pairs in integers, so that no order of them matters; of the two at
 * the edges, parts. */
typedef struct shared {
    int64_t whole;
    double part;
} shared;

static void add_shared(shared *sum, int64_t value, double share)
{
    if (share == 1.0)
        sum->whole = plus(sum->whole, value);
    else
        sum->part += (double)value * share;
}

static double total(const shared *sum)
{
    return (double)sum->whole + sum->part;
}

static void sum_minute_cpu(pl_reader *r, const view *v, int64_t start_ns, const pl_rules *rules, pl_minute_sums *out)
{
    const step *steps = r->steps;
    int64_t end_ns = plus(start_ns, MINUTE_NS), good_pairs;
    int64_t reach_ns = plus(rules->rate_window_ns, rules->max_step_ns);
    shared used = {0}, waiting_usec = {0}, waiting_ns = {0}, throttled_usec = {0}, throttled_ns = {0};
    unread u = {.after_ns = INT64_MAX};
    uint32_t count, first, before, lead, stop, rates;
    bool is_adjusted, has_waited;

    count = pair_rows(v, minus(start_ns, reach_ns), plus(end_ns, rules->max_step_ns), rules, r->steps, &u);
    first = until(steps, count, start_ns);
    before = until(steps, count, minus(end_ns, 1)); /* readings before the end */
    lead = first > 0 ? first - 1 : 0;
    stop = before + 1 < count ? before + 1 : count;
    for (uint32_t index = lead + 1; index < stop; index++) {
        const step *s = &steps[index];
        int64_t inside_ns = minus(least(s->axis_ns, end_ns), most(s[-1].axis_ns, start_ns));
        double share;

        if (s->gap != GOOD)
            continue;
        out->covered_ns += inside_ns;
        share = (double)inside_ns / (double)most(s->elapsed_ns, 1);
        add_shared(&used, s->used_usec, share);
        add_shared(&waiting_usec, s->waited_usec - s[-1].waited_usec, share);
        add_shared(&waiting_ns, s->waited_ns - s[-1].waited_ns, share);
        add_shared(&throttled_usec, s->throttled_usec, share);
        add_shared(&throttled_ns, s->throttled_ns, share);
    }
    if (out->covered_ns <= 0) {
        out->covered_ns = 0;
        return;
    }
    for (uint32_t index = first; index < stop; index++)
        out->has |= steps[index].has;
    out->used_usec = total(&used);
    out->waiting_usec = total(&waiting_usec);
    out->waiting_ns = total(&waiting_ns);
    out->throttled_usec = total(&throttled_usec);
    out->throttled_ns = total(&throttled_ns);
    out->burst_millicores = burst_of(steps, lead + 1, stop, &good_pairs);
    rates = sliding_rates(r, first, until(steps, count, end_ns), rules, &is_adjusted, &has_waited);
    if (rates > 0)
        out->peak_millicores = largest(is_adjusted ? r->adjusted : r->usage, rates);
}

static void sum_minute_memory(const view *v, int64_t start_ns, pl_minute_sums *out)
{
    int64_t end_ns = plus(start_ns, MINUTE_NS);

    for (uint32_t index = 0; index < v->count; index++) {
        const pl_memory_row *row = memory_row(v, index);
        int64_t stamp_ns = (int64_t)row->monotonic_ns;

        if (stamp_ns <= start_ns || stamp_ns > end_ns || row->status != PL_OK)
            continue;
        out->memory_has |= row->has;
        if (row->has & PL_HAS_MEMORY_STAT) {
            out->sized++;
            out->working_set_peak_bytes = most(out->working_set_peak_bytes, (int64_t)row->working_set_peak_bytes);
        }
    }
}

/* ---- the reader ---- */

static bool fits(const pl_geometry *g, uint64_t memory_bytes)
{
    uint64_t raw_end = g->raw_offset + (uint64_t)g->raw_length * sizeof(pl_sample);
    uint64_t memory_end = g->memory_offset + (uint64_t)g->memory_length * sizeof(pl_memory_row);

    if (g->raw_length < 2 || g->memory_length < 2 || g->max_slots == 0 || g->first_slot_offset > memory_bytes)
        return false;
    if ((g->first_slot_offset | g->slot_stride | g->raw_offset | g->memory_offset) % 8 != 0)
        return false;
    if (g->raw_offset < sizeof(pl_slot_header) || g->memory_offset < sizeof(pl_slot_header))
        return false;
    return raw_end <= g->slot_stride && memory_end <= g->slot_stride &&
           g->slot_stride <= (memory_bytes - g->first_slot_offset) / g->max_slots;
}

int pl_reader_open(const void *rings, uint64_t memory_bytes, const pl_geometry *geometry, pl_reader **out)
{
    pl_reader *r;
    uint32_t rows;

    if (rings == NULL || geometry == NULL || out == NULL || !fits(geometry, memory_bytes))
        return PL_E_ARG;
    r = calloc(1, sizeof *r);
    if (r == NULL)
        return PL_E_NOMEM;
    rows = geometry->raw_length > geometry->memory_length ? geometry->raw_length : geometry->memory_length;
    r->base = rings;
    r->geometry = *geometry;
    r->steps = calloc(geometry->raw_length, sizeof *r->steps);
    r->usage = calloc(rows, sizeof *r->usage);
    r->adjusted = calloc(rows, sizeof *r->adjusted);
    if (r->steps == NULL || r->usage == NULL || r->adjusted == NULL) {
        pl_reader_close(r);
        return PL_E_NOMEM;
    }
    *out = r;
    return PL_OK;
}

void pl_reader_close(pl_reader *r)
{
    if (r == NULL)
        return;
    free(r->steps);
    free(r->usage);
    free(r->adjusted);
    free(r);
}

static bool are_slots(const pl_reader *r, const uint32_t *slots, uint32_t count)
{
    if (r == NULL || (slots == NULL && count > 0))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (slots[i] >= r->geometry.max_slots)
            return false;
    }
    return true;
}

int pl_sum_cpu(pl_reader *r, const uint32_t *slots, uint32_t count, uint32_t rows, int64_t end_ns,
               const pl_rules *rules, pl_cpu_sums *out, uint8_t *intact)
{
    if (!are_slots(r, slots, count))
        return PL_E_ARG;
    for (uint32_t i = 0; i < count; i++) {
        view v = raw_view(r, slots[i], rows);

        sum_cpu(r, &v, end_ns, rules, &out[i]);
        intact[i] = is_intact(&v);
    }
    return PL_OK;
}

int pl_sum_memory(pl_reader *r, const uint32_t *slots, uint32_t count, uint32_t rows, int64_t end_ns,
                  const pl_rules *rules, pl_memory_sums *out, uint8_t *intact)
{
    if (!are_slots(r, slots, count))
        return PL_E_ARG;
    for (uint32_t i = 0; i < count; i++) {
        view v = memory_view(r, slots[i], rows);

        sum_memory(r, &v, end_ns, rules, &out[i]);
        intact[i] = is_intact(&v);
    }
    return PL_OK;
}

int pl_sum_minute(pl_reader *r, const uint32_t *slots, uint32_t count, uint32_t raw_rows, uint32_t memory_rows,
                  int64_t start_ns, const pl_rules *rules, pl_minute_sums *out, uint8_t *intact)
{
    if (!are_slots(r, slots, count))
        return PL_E_ARG;
    for (uint32_t i = 0; i < count; i++) {
        view raw = raw_view(r, slots[i], raw_rows), memory = memory_view(r, slots[i], memory_rows);

        memset(&out[i], 0, sizeof out[i]);
        sum_minute_cpu(r, &raw, start_ns, rules, &out[i]);
        sum_minute_memory(&memory, start_ns, &out[i]);
        intact[i] = is_intact(&raw) && is_intact(&memory);
    }
    return PL_OK;
}
