/*
 * Leads connections on: `forward ADDRESS PORT FILE` listens there, and joins each connection to the "ADDRESS PORT" that
 * stands in FILE at that moment. In place of kube-proxy: one process a connection, nothing of iptables.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in place(const char *address, const char *port)
{
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};

    if (inet_pton(AF_INET, address, &found.sin_addr) != 1)
        exit(2);
    return found;
}

static int joined(const char *path)
{
    char address[64], port[16];
    FILE *file = fopen(path, "r");
    int count = file == NULL ? 0 : fscanf(file, "%63s %15s", address, port);
    int target = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in there;

    if (count != 2)
        return -1;
    fclose(file);
    there = place(address, port);
    return connect(target, (struct sockaddr *)&there, sizeof(there)) < 0 ? -1 : target;
}

/* Pass on what there is; 0 = that side has ended, and the other is told so. */
static int passed(int from, int to)
{
    char bytes[1 << 16];
    ssize_t length = read(from, bytes, sizeof(bytes)), done = 0, part;

    if (length <= 0) {
        shutdown(to, SHUT_WR);
        return 0;
    }
    while (done < length) {
        part = write(to, bytes + done, (size_t)(length - done));
        if (part <= 0)
            exit(1);
        done += part;
    }
    return 1;
}

static void pump(int one, int other)
{
    struct pollfd sides[2] = {{.fd = one, .events = POLLIN}, {.fd = other, .events = POLLIN}};

    while (sides[0].fd >= 0 || sides[1].fd >= 0) {
        if (poll(sides, 2, -1) < 0)
            exit(1);
        if (sides[0].revents != 0 && !passed(one, other))
            sides[0].fd = -1;
        if (sides[1].revents != 0 && !passed(other, one))
            sides[1].fd = -1;
    }
    exit(0);
}

int main(int count, char **arguments)
{
    int listener, connection, target, yes = 1;
    struct sockaddr_in here;

    if (count != 4)
        return 2;
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    here = place(arguments[1], arguments[2]);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(listener, (struct sockaddr *)&here, sizeof(here)) < 0 || listen(listener, 128) < 0) {
        perror(arguments[1]);
        return 1;
    }
    for (;;) {
        connection = accept(listener, NULL, NULL);
        if (connection < 0)
            continue;
        if (fork() == 0) {
            close(listener);
            target = joined(arguments[3]);
            if (target < 0)
                return 1;
            pump(connection, target);
        }
        close(connection);
    }
}
