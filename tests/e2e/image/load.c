/*
 * A load that does what two small files say, ten times a second: /control/spinners is how many processes shall spin,
 * /control/memory_mib how much memory to hold. A file that is not there means 0. Memory is touched at up to
 * STEP_BYTES a turn, so that a rise takes time and can be seen coming; it is given back at once.
 */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define MAX_SPINNERS 16
#define MAX_BYTES (1024 * MIB)
#define TURN_MICROSECONDS 100000

static long number_in(const char *path)
{
    FILE *file = fopen(path, "r");
    long number = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%ld", &number) != 1 || number < 0)
        number = 0;
    fclose(file);
    return number;
}

static void spin(void)
{
    volatile unsigned long turns = 0;

    signal(SIGTERM, SIG_DFL);
    for (;;)
        turns++;
}

int main(int count, char **arguments)
{
    /* MiB per turn: 4 is 40 MiB a second. */
    size_t step_bytes = (count > 1 ? (size_t)atoi(arguments[1]) : 4) * MIB;
    pid_t spinners[MAX_SPINNERS];
    long running = 0;
    size_t held = 0;
    char *room = mmap(NULL, MAX_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (room == MAP_FAILED)
        return 1;
    for (;;) {
        long wanted = number_in("/control/spinners");
        size_t bytes = (size_t)number_in("/control/memory_mib") * MIB;

        if (wanted > MAX_SPINNERS)
            wanted = MAX_SPINNERS;
        if (bytes > MAX_BYTES)
            bytes = MAX_BYTES;
        while (running < wanted) {
            pid_t child = fork();

            if (child == 0)
                spin();
            if (child < 0)
                break;
            spinners[running++] = child;
        }
        while (running > wanted) {
            pid_t child = spinners[--running];

            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
        }
        if (held < bytes) {
            size_t more = bytes - held < step_bytes ? bytes - held : step_bytes;

            memset(room + held, 1, more);
            held += more;
        } else if (held > bytes) {
            madvise(room + bytes, held - bytes, MADV_DONTNEED);
            held = bytes;
        }
        usleep(TURN_MICROSECONDS);
    }
}
