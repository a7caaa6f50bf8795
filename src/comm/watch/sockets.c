/* TCP sockets between hosts. */
#include "watch/sockets.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NEVER 1e9

enum { BACKLOG = 1024 /* a stopped process accepts no connection, and its neighbours keep trying */ };

/* ---- addresses ---- */

static socket_address address_of(const struct sockaddr *from)
{
    socket_address a = {0};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (from->sa_family == AF_INET) {
        memcpy(&v4, from, sizeof v4);
        a.family = 4;
        memcpy(a.bytes, &v4.sin_addr, 4);
    } else if (from->sa_family == AF_INET6) {
        memcpy(&v6, from, sizeof v6);
        if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) return a; /* link-local: means another interface on each host */
        a.family = 6;
        memcpy(a.bytes, &v6.sin6_addr, 16);
    }
    return a;
}

static int socket_interfaces(const struct ifaddrs *list, unsigned loop, socket_address *out, int most)
{
    int count = 0;
    for (const struct ifaddrs *i = list; i != NULL && count < most; i = i->ifa_next) {
        if (i->ifa_addr == NULL || (i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != loop) continue;
        out[count] = address_of(i->ifa_addr);
        count += out[count].family != 0;
    }
    return count;
}

int socket_addresses(socket_address *out, int most, bool with_loop)
{
    struct ifaddrs *list = NULL;
    int count = 0;
    if (getifaddrs(&list) != 0) return 0;
    if (with_loop) count = socket_interfaces(list, IFF_LOOPBACK, out, most);
    count += socket_interfaces(list, 0, out + count, most - count);
    if (count == 0) count = socket_interfaces(list, IFF_LOOPBACK, out, most);
    freeifaddrs(list);
    return count;
}

/* ---- both ends ---- */

static int new_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Enables keepalives, so that the operating systems keep checking the connection while nothing is sent. */
static void socket_set_up(int fd)
{
    const int on = 1, second = 1, probes = 30;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof second);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static int fail_socket(int fd)
{
    const int error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return -1;
}

static int listen_on(int family, uint16_t *port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr *any = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t size = family == AF_INET ? sizeof v4 : sizeof v6;
    const int off = 0, fd = new_socket(family);
    if (fd < 0) return -1;
    if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) return fail_socket(fd);
    if (bind(fd, any, size) != 0 || listen(fd, BACKLOG) != 0 || getsockname(fd, any, &size) != 0)
        return fail_socket(fd);
    *port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
    return fd;
}

int socket_listen(uint16_t *port)
{
    const int fd = listen_on(AF_INET6, port);
    return fd >= 0 ? fd : listen_on(AF_INET, port);
}

int socket_accept(int listener)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) socket_set_up(fd);
    return fd;
}

int socket_connect(const socket_address *to, uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const bool is_v4 = to->family == 4;
    memcpy(&v4.sin_addr, to->bytes, 4);
    memcpy(&v6.sin6_addr, to->bytes, 16);
    const int fd = new_socket(is_v4 ? AF_INET : AF_INET6);
    if (fd < 0) return -1;
    socket_set_up(fd);
    const struct sockaddr *at = is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    if (connect(fd, at, is_v4 ? sizeof v4 : sizeof v6) == 0 || errno == EINPROGRESS) return fd;
    return fail_socket(fd);
}

int socket_connected(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/* ---- bytes ---- */

static bool is_for_later(void)
{
    return errno == EAGAIN || errno == EINTR;
}

long socket_read(int fd, void *to, size_t bytes)
{
    const ssize_t n = recv(fd, to, bytes, 0);
    if (n > 0) return (long)n;
    return n < 0 && is_for_later() ? 0 : -1;
}

long socket_write(int fd, const void *from, size_t bytes)
{
    const ssize_t n = send(fd, from, bytes, MSG_NOSIGNAL);
    if (n >= 0) return (long)n;
    return is_for_later() ? 0 : -1;
}

double socket_quiet(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return NEVER;
    return info.tcpi_last_ack_recv / 1e3;
}
