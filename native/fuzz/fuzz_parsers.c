/*
 * libFuzzer target: any bytes into every parser. Includes sampler.c, so that the parsers stay static.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined native/fuzz/fuzz_parsers.c -o build/fuzz_parsers
 *     build/fuzz_parsers CORPUS_DIRECTORY tests/data/cgroup/...
 *
 * Seeds are real files (tests/data/cgroup). A crash becomes a seed for good: put the input into
 * tests/data/cgroup/found.
 */
#include "../sampler.c"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What every parser owes to any text: a known answer, and nothing written when it refuses. */
static void expect(int holds)
{
    if (!holds)
        abort();
}

static int is_untouched(const void *out, size_t size)
{
    const unsigned char *bytes = out;

    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0xA5)
            return 0;
    }
    return 1;
}

/* A line of the text that starts with this key holds this number: looked for in another way than the parser does. */
static int has_line(const char *text, size_t size, const char *key, uint64_t number)
{
    char digits[24];
    size_t key_length = strlen(key);
    size_t length = sizeof(digits);
    const char *line = text;
    const char *end = text + size;

    do
        digits[--length] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *p = line + key_length;

        if (newline == NULL)
            return 0;
        if ((size_t)(newline - line) > key_length && memcmp(line, key, key_length) == 0) {
            while (p < newline - 1 && *p == '0')
                p++;
            if ((size_t)(newline - p) == sizeof(digits) - length &&
                memcmp(p, digits + length, sizeof(digits) - length) == 0)
                return 1;
        }
        line = newline + 1;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of just this size: AddressSanitizer then sees a read of the byte behind it. */
    char *text = malloc(size > 0 ? size : 1);
    cpu_stat cpu;
    pressure stalls;
    memory_stat stat;
    memory_events events;
    uint64_t number;

    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    memset(&cpu, 0xA5, sizeof(cpu));
    memset(&stalls, 0xA5, sizeof(stalls));
    memset(&stat, 0xA5, sizeof(stat));
    memset(&events, 0xA5, sizeof(events));
    memset(&number, 0xA5, sizeof(number));
    if (parse_cpu_stat(text, size, &cpu) == PL_OK)
        expect(has_line(text, size, "usage_usec ", cpu.usage_usec));
    else
        expect(is_untouched(&cpu, sizeof(cpu)));
    if (parse_pressure(text, size, &stalls) != PL_OK)
        expect(is_untouched(&stalls, sizeof(stalls)));
    if (parse_memory_stat(text, size, &stat) == PL_OK)
        expect(has_line(text, size, "anon ", stat.anon_bytes) &&
               has_line(text, size, "inactive_file ", stat.inactive_file_bytes) &&
               (!stat.has_file_refaults ||
                (has_line(text, size, "active_file ", stat.active_file_bytes) &&
                 has_line(text, size, "workingset_refault_file ", stat.workingset_refault_file_pages))));
    else
        expect(is_untouched(&stat, sizeof(stat)));
    if (parse_memory_events(text, size, &events) == PL_OK)
        expect(has_line(text, size, "oom_kill ", events.oom_kill) && has_line(text, size, "high ", events.high));
    else
        expect(is_untouched(&events, sizeof(events)));
    if (parse_number(text, size, &number) == PL_OK)
        expect(has_line(text, size, "", number));
    else
        expect(is_untouched(&number, sizeof(number)));
    free(text);
    return 0;
}
