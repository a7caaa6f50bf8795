/* Ends the connections of server_http.c whose requests arrive too slowly, and idle ones where places are short. */
#ifndef MEGA_CLI_SERVER_SLOW_H
#define MEGA_CLI_SERVER_SLOW_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct server_slow server_slow;
typedef struct server_slow_link server_slow_link; /* one connection */

/* From its first byte on, a request has to arrive within `seconds`; and after the first few of them with at least
 * `rate` bytes a second. A new connection counts from its beginning. `places` connections are possible. Starts a
 * thread. */
mega_status server_slow_open(int seconds, int64_t rate, int places, server_slow **out);
void server_slow_close(server_slow *s); /* when all connections have been removed; NULL is allowed */
/* The connection of a socket, which stays open until it is removed. NULL, if memory is short, is not watched. If few
 * places are left, the connection that has been idle for longest is ended. */
server_slow_link *server_slow_add(server_slow *s, int socket);
void server_slow_remove(server_slow *s, server_slow_link *l);
bool server_slow_is_short(server_slow *s); /* few places are left: a connection should not outlive its answer */
/* A request has arrived whole; it has been answered. */
void server_slow_arrived(server_slow *s, server_slow_link *l);
void server_slow_answered(server_slow *s, server_slow_link *l);

#endif
