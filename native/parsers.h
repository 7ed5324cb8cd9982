/*
 * Parsers of cgroup v2 files: (buf, len) in, numbers out; they read nothing, allocate nothing, need no NUL.
 *
 * All functions are static: sampler.c includes this file, and so do the tests and the fuzz target through it.
 * Outputs are written on success only. A text counts as whole only if its last byte is '\n' (is_whole); every loop
 * below ends at that byte at the latest, which is why the inner loops need no bound of their own.
 * Unknown keys are skipped. Of a key that comes twice the last one counts (the kernel prints each once).
 */
#ifndef PLIMSOLL_PARSERS_H
#define PLIMSOLL_PARSERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sampler.h"

typedef struct text_key {
    const char *text; /* with the space that follows it */
    size_t length;
} text_key;

#define TEXT_KEY(literal) {literal, sizeof(literal) - 1}
#define KEYS_MAX 4u
#define DIGITS_THAT_FIT 19 /* of any uint64_t */

typedef struct cpu_stat {
    uint64_t usage_usec;
    uint64_t throttled_usec; /* this and the two below: only if has_throttled */
    uint64_t nr_periods;
    uint64_t nr_throttled;
    int has_throttled;
} cpu_stat;

typedef struct pressure {
    uint64_t some_usec;
    uint64_t full_usec; /* only if has_full */
    int has_full;
} pressure;

typedef struct memory_stat {
    uint64_t anon_bytes;
    uint64_t inactive_file_bytes;
    uint64_t active_file_bytes; /* this and the one below: only if has_file_refaults */
    uint64_t workingset_refault_file_pages;
    int has_file_refaults;
} memory_stat;

typedef struct memory_events {
    uint64_t oom_kill;
    uint64_t high;
} memory_events;

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_whole(const char *buf, size_t len)
{
    return len > 0 && buf[len - 1] == '\n';
}

static uint32_t head_of(const char *text)
{
    uint32_t head;

    memcpy(&head, text, sizeof(head));
    return head;
}

/* The byte after the line that p is in. Needs a '\n' at or after p, which is_whole promises. */
static const char *after_line(const char *p, const char *end)
{
    const char *newline = memchr(p, '\n', (size_t)(end - p));

    return newline == NULL ? end : newline + 1;
}

/* Is a number of more than DIGITS_THAT_FIT digits below 2^64 all the same? */
static int fits_u64(const char *digits, const char *end)
{
    uint64_t value = 0;

    for (; digits < end; digits++) {
        uint64_t digit = (uint64_t)(*digits - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    return 1;
}

/*
 * Decimal digits up to the end of the line; refuses sign, space, overflow and an empty number. *cursor moves behind
 * the '\n' on success. Needs a '\n' at or after *cursor: a number cut short would have lost it.
 */
static int take_u64_line(const char **cursor, uint64_t *out)
{
    const char *start = *cursor;
    const char *p = start;
    uint64_t value = 0;
    unsigned digit;

    /* Nothing is asked of a digit but that it is one: what does not fit wraps here, and is looked at below. */
    for (; (digit = (unsigned)(unsigned char)*p - '0') <= 9; p++)
        value = value * 10 + digit;
    if (p == start || *p != '\n' || (p - start > DIGITS_THAT_FIT && !fits_u64(start, p)))
        return PL_E_PARSE;
    *cursor = p + 1;
    *out = value;
    return PL_OK;
}

/*
 * "key number" lines in any order. Values and *found (bit i: keys[i] is there) are written for the keys seen; the
 * caller decides which are required. A known key with anything but a number spoils the whole text.
 */
static int parse_keyed(const char *buf, size_t len, const text_key *keys, size_t count, uint64_t *values,
                       unsigned *found)
{
    const char *p = buf;
    const char *end = buf + len;
    unsigned seen = 0;

    if (!is_whole(buf, len))
        return PL_E_PARSE;
    while (p < end) {
        size_t i;

        for (i = 0; i < count; i++) {
            /* The first four bytes rule out nearly all lines without a call; no key is shorter. */
            if ((size_t)(end - p) > keys[i].length && head_of(p) == head_of(keys[i].text) &&
                memcmp(p, keys[i].text, keys[i].length) == 0)
                break;
        }
        if (i == count) {
            p = after_line(p, end);
            continue;
        }
        p += keys[i].length;
        if (take_u64_line(&p, &values[i]) != PL_OK)
            return PL_E_PARSE;
        seen |= 1u << i;
    }
    *found = seen;
    return PL_OK;
}

/* usage_usec is required; without the cpu controller the three throttling keys are missing together. */
static int parse_cpu_stat(const char *buf, size_t len, cpu_stat *out)
{
    static const text_key keys[] = {TEXT_KEY("usage_usec "), TEXT_KEY("nr_periods "), TEXT_KEY("nr_throttled "),
                                    TEXT_KEY("throttled_usec ")};
    uint64_t values[KEYS_MAX] = {0};
    unsigned found = 0;

    if (parse_keyed(buf, len, keys, 4, values, &found) != PL_OK || (found & 1u) == 0)
        return PL_E_PARSE;
    out->usage_usec = values[0];
    out->nr_periods = values[1];
    out->nr_throttled = values[2];
    out->throttled_usec = values[3];
    out->has_throttled = (found & 14u) == 14u;
    return PL_OK;
}

/* anon and inactive_file are required; workingset_refault_file came with kernel 5.9. */
static int parse_memory_stat(const char *buf, size_t len, memory_stat *out)
{
    static const text_key keys[] = {TEXT_KEY("anon "), TEXT_KEY("inactive_file "), TEXT_KEY("active_file "),
                                    TEXT_KEY("workingset_refault_file ")};
    uint64_t values[KEYS_MAX] = {0};
    unsigned found = 0;

    if (parse_keyed(buf, len, keys, 4, values, &found) != PL_OK || (found & 3u) != 3u)
        return PL_E_PARSE;
    out->anon_bytes = values[0];
    out->inactive_file_bytes = values[1];
    out->active_file_bytes = values[2];
    out->workingset_refault_file_pages = values[3];
    out->has_file_refaults = (found & 12u) == 12u;
    return PL_OK;
}

static int parse_memory_events(const char *buf, size_t len, memory_events *out)
{
    static const text_key keys[] = {TEXT_KEY("oom_kill "), TEXT_KEY("high ")};
    uint64_t values[KEYS_MAX] = {0};
    unsigned found = 0;

    if (parse_keyed(buf, len, keys, 2, values, &found) != PL_OK || found != 3u)
        return PL_E_PARSE;
    out->oom_kill = values[0];
    out->high = values[1];
    return PL_OK;
}

/* One number and nothing else: memory.current, memory.peak. */
static int parse_number(const char *buf, size_t len, uint64_t *out)
{
    const char *p = buf;
    uint64_t value = 0;

    if (!is_whole(buf, len) || take_u64_line(&p, &value) != PL_OK || p != buf + len)
        return PL_E_PARSE;
    *out = value;
    return PL_OK;
}

/*
 * The total of one pressure line. It is the last field, so it is looked for from the line's end: the averages, which
 * are floats that nobody here needs, are not looked at.
 */
static int take_total(const char *line, const char *newline, uint64_t *out)
{
    static const char label[] = " total=";
    const size_t label_length = sizeof(label) - 1;
    const char *p = newline;

    while (p > line && is_digit(p[-1]))
        p--;
    if ((size_t)(p - line) < label_length || memcmp(p - label_length, label, label_length) != 0)
        return PL_E_PARSE;
    return take_u64_line(&p, out);
}

/* A "some" line is required; "full" came to cgroups' cpu.pressure with kernel 5.13. */
static int parse_pressure(const char *buf, size_t len, pressure *out)
{
    const char *p = buf;
    const char *end = buf + len;
    pressure got = {0, 0, 0};
    int has_some = 0;

    if (!is_whole(buf, len))
        return PL_E_PARSE;
    while (p < end) {
        const char *next = after_line(p, end);

        if (next - p > 5 && memcmp(p, "some ", 5) == 0) {
            if (take_total(p, next - 1, &got.some_usec) != PL_OK)
                return PL_E_PARSE;
            has_some = 1;
        } else if (next - p > 5 && memcmp(p, "full ", 5) == 0) {
            if (take_total(p, next - 1, &got.full_usec) != PL_OK)
                return PL_E_PARSE;
            got.has_full = 1;
        }
        p = next;
    }
    if (!has_some)
        return PL_E_PARSE;
    *out = got;
    return PL_OK;
}

#endif
