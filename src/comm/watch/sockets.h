/* TCP between hosts, for the records: nothing here blocks, and nothing is inherited by another program. */
#ifndef MEGA_SOCKETS_H
#define MEGA_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As it goes from host to host. */
typedef struct socket_address {
    uint16_t family; /* 4 or 6; 0: none */
    unsigned char bytes[16];
} socket_address;

/* Of this host's interfaces that are up; the loop of this host alone where `with_loop`, or where there is no other.
 * Returns how many. */
int socket_addresses(socket_address *out, int most, bool with_loop);
/* On all interfaces, IPv6 and IPv4, at a port that the system chooses; -1: none, errno says why. */
int socket_listen(uint16_t *port);
int socket_accept(int listener); /* -1: nobody (any more), or no descriptor */
/* Begins; -1: failed at once, errno says why. */
int socket_connect(const socket_address *to, uint16_t port);
/* Once it can be written: 0, or the errno of why there is no connection. */
int socket_connected(int fd);
/* Bytes; 0: not now; -1: the connection is at its end. */
long socket_read(int fd, void *to, size_t bytes);
long socket_write(int fd, const void *from, size_t bytes);
/* Seconds since the system at the other end gave a sign of life, which it gives at least each second also where its
 * process does not run. */
double socket_quiet(int fd);

#endif
