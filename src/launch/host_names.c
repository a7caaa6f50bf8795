/* The names of hosts: USER@NAME, numeric addresses, and whether a name means this machine. */
#include "launch_impl.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

bool launch_host_read(launch_plan *p, const char *where, char *typed, launch_host *out)
{
    const char *at = strrchr(typed, '@'), *name = at != NULL ? at + 1 : typed;
    struct in6_addr number;
    out->typed = mega_arena_strdup(&p->arena, typed);
    out->user = at != NULL ? mega_arena_format(&p->arena, "%.*s", (int)(at - typed), typed) : NULL;
    out->name = name;
    char *inside = mega_arena_strdup(&p->arena, name + (name[0] == '['));
    if (inside != NULL) inside[strcspn(inside, "]%")] = '\0';
    if (inside != NULL && inet_pton(AF_INET6, inside, &number) == 1)
        launch_mistake(p,
                       "%s: \"%s\" is an IPv6 address, which MPI launchers do not take as a host. Give the address a "
                       "name in /etc/hosts, or in ~/.ssh/config (Host NAME, HostName %s), and write that name",
                       where, typed, inside);
    else if (typed[0] == '-' || name[0] == '-' || name[0] == '\0' ||
             (at != NULL && (at == typed || strchr(typed, '@') != at)))
        launch_mistake(p, "%s: \"%s\" is not a host; expected NAME or USER@NAME", where, typed);
    else if (strpbrk(name, ",:[]") != NULL)
        launch_mistake(p,
                       "%s: \"%s\" is not a host: a name has no comma, colon or bracket; a port of ssh belongs in "
                       "~/.ssh/config (Host NAME, Port N)",
                       where, typed);
    else
        return true;
    return false;
}

/* ---- this machine ---- */

static bool is_same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a == NULL || b == NULL || a->sa_family != b->sa_family) return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* 127.0.1.1, which Debian gives to the machine's own name, belongs to no interface. */
static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

/* Whether one of the addresses of `name` is one of this machine's. */
static bool has_address_here(const char *name)
{
    struct addrinfo *found = NULL;
    struct ifaddrs *own = NULL;
    bool is_here = false;
    if (getaddrinfo(name, NULL, &(struct addrinfo){.ai_socktype = SOCK_STREAM}, &found) != 0) return false;
    if (getifaddrs(&own) != 0) own = NULL;
    for (const struct addrinfo *f = found; f != NULL && !is_here; f = f->ai_next) {
        is_here = is_loopback(f->ai_addr);
        for (const struct ifaddrs *o = own; o != NULL && !is_here; o = o->ifa_next)
            is_here = is_same_address(f->ai_addr, o->ifa_addr);
    }
    if (own != NULL) freeifaddrs(own);
    freeaddrinfo(found);
    return is_here;
}

bool launch_host_is_own_user(const launch_host *h)
{
    if (h->user == NULL) return true;
    const struct passwd *own = getpwuid(geteuid());
    return own != NULL && strcmp(own->pw_name, h->user) == 0;
}

/* An alias of ~/.ssh/config resolves to no address: it counts as another host and is reached over ssh, which is right
 * even where it leads back to this one. */
static bool is_name_of_this(const char *name)
{
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    if (strcasecmp(name, "localhost") == 0 || (own[0] != '\0' && strcasecmp(name, own) == 0)) return true;
    const size_t label = strcspn(own, ".");
    if (label > 0 && strlen(name) == label && strncasecmp(name, own, label) == 0) return true;
    return has_address_here(name);
}

bool launch_host_is_here(launch_host *h)
{
    if (h->here == 0) h->here = is_name_of_this(h->name) ? 1 : -1;
    return h->here > 0;
}

bool launch_hosts_are_here(const launch_plan *p)
{
    return p->hosts == 0 || (p->hosts == 1 && launch_host_is_here(&p->host[0]));
}

/* ---- what the MPI launchers take ---- */

/* Users are passed to ssh once for all hosts, which every MPI launcher can be told: of mpirun only a hostfile takes a
 * user, and the names of its hosts must be plain. */
const char *launch_hosts_user(const launch_plan *p)
{
    for (int i = 0; i < p->hosts; i++)
        if (p->host[i].user != NULL && !launch_host_is_here(&p->host[i])) return p->host[i].user;
    return NULL;
}

static void check_users(launch_plan *p)
{
    static const char *const variable[] = {LAUNCH_AGENT_4, LAUNCH_AGENT_5, LAUNCH_AGENT_MPICH};
    const char *user = launch_hosts_user(p);
    for (int i = 0; i < p->hosts && user != NULL; i++) {
        launch_host *h = &p->host[i];
        if (launch_host_is_here(h) || (h->user != NULL && strcmp(h->user, user) == 0)) continue;
        launch_mistake(p,
                       "%s:%d: host %s has another user than %s: the MPI launcher takes one for all hosts. Give each "
                       "its User in ~/.ssh/config instead",
                       p->hostfile, h->line, h->typed, user);
    }
    for (int i = 0; i < p->hosts; i++) {
        launch_host *h = &p->host[i];
        if (h->user == NULL || !launch_host_is_here(h) || launch_host_is_own_user(h)) continue;
        launch_mistake(p,
                       "%s:%d: host %s is this machine, where the ranks run as the user who starts them: start as %s, "
                       "or leave %s@ out",
                       p->hostfile, h->line, h->typed, h->user, h->user);
    }
    for (size_t i = 0; i < sizeof variable / sizeof *variable && user != NULL; i++)
        if (getenv(variable[i]) != NULL)
            launch_mistake(p,
                           "%s: the user %s of its hosts would be lost, because the environment has %s=%s already; "
                           "unset it, or leave the user out",
                           p->hostfile, user, variable[i], getenv(variable[i]));
}

void launch_hosts_check(launch_plan *p, launch_kind kind)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-";
    check_users(p);
    for (int i = 0; i < p->hosts && kind == LAUNCH_OPENMPI; i++) {
        const launch_host *h = &p->host[i];
        if (h->name[strspn(h->name, letters)] != '\0')
            launch_mistake(p,
                           "%s:%d: host %s: Open MPI takes names of letters, digits, dots and hyphens only; give it "
                           "such a name in ~/.ssh/config (Host NAME, HostName %s)",
                           p->hostfile, h->line, h->typed, h->name);
    }
}
