/* TCP sockets for the records: no call blocks, and no descriptor is inherited by another program. */
#ifndef MEGA_SOCKETS_H
#define MEGA_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An address as it is sent between hosts. */
typedef struct socket_address {
    uint16_t family; /* 4 or 6; 0: none */
    unsigned char bytes[16];
} socket_address;

/* Lists the addresses of this host's interfaces that are up; loopback addresses only with `with_loop`, or if there are
 * no others. Returns their number. */
int socket_addresses(socket_address *out, int most, bool with_loop);
/* Listens on all interfaces, IPv6 and IPv4, at a port that the system chooses. Returns -1 with errno on failure. */
int socket_listen(uint16_t *port);
int socket_accept(int listener); /* -1: no connection is waiting (any more), or no descriptor is left */
/* Starts to connect. Returns -1 with errno if that failed at once. */
int socket_connect(const socket_address *to, uint16_t port);
/* Call when the socket is writable: returns 0, or the errno of the failed connection. */
int socket_connected(int fd);
/* Returns the number of bytes; 0: none now; -1: the connection has ended. */
long socket_read(int fd, void *to, size_t bytes);
long socket_write(int fd, const void *from, size_t bytes);
/* Returns the seconds since the operating system at the other end gave a sign of life, which it does at least every
 * second, even if its process does not run. */
double socket_quiet(int fd);

#endif
