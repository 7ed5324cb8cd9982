/*
 * Puts one line to a unix socket and prints what comes back: `ask PATH LINE`. In the guest Python would take seconds
 * to start for this, and minutes where loads contend.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char answer[1 << 16];
    ssize_t length;
    int connection;

    if (count != 3 || strlen(arguments[1]) >= sizeof(address.sun_path))
        return 2;
    strcpy(address.sun_path, arguments[1]);
    connection = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof(address)) < 0) {
        perror(arguments[1]);
        return 1;
    }
    if (dprintf(connection, "%s\n", arguments[2]) < 0)
        return 1;
    while ((length = read(connection, answer, sizeof(answer))) > 0) {
        if (write(STDOUT_FILENO, answer, (size_t)length) < 0)
            return 1;
    }
    return length < 0;
}
