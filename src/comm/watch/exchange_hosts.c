/* Maps ranks to hosts from the ranks' announcements. */
#include "megalith/memory.h"
#include "watch/exchange_impl.h"

#include <string.h>

static int count_hosts(const exchange_place *all, int ranks)
{
    int hosts = 0;
    for (int r = 0; r < ranks; r++) hosts += all[r].leader == r;
    return hosts;
}

static int hosts_find(const record_exchange *x, int leader)
{
    int h = 0;
    while (h < x->hosts && x->host[h].leader != leader) h++;
    return h;
}

static void name_host(far_host *h, const exchange_place *place, int leader)
{
    *h = (far_host){.leader = leader, .known = -1, .news.dead = -1};
    memcpy(h->name, place->host, sizeof h->name);
    h->name[sizeof h->name - 1] = '\0';
    h->addresses = place->addresses <= EXCHANGE_ADDRESSES ? place->addresses : EXCHANGE_ADDRESSES;
    memcpy(h->address, place->address, sizeof h->address);
}

/* Sorts the ranks by host, ascending within each. */
static void sort_ranks(record_exchange *x)
{
    const int ranks = x->world->size;
    int at = 0;
    for (int i = 0; i < x->hosts; i++) {
        far_host *h = &x->host[i];
        h->first = at;
        for (int r = 0; r < ranks; r++)
            if (x->host_of[r] == i) x->rank[at++] = r;
        h->ranks = at - h->first;
        /* spreads the queries of this host's ranks over the ranks that answer */
        h->turn = h->ranks > 0 ? x->world->rank % h->ranks : 0;
        h->news.name = h->name;
        h->news.rank = &x->rank[h->first];
        h->news.ranks = h->ranks;
    }
}

mega_status exchange_hosts(record_exchange *x, const exchange_place *all)
{
    const int ranks = x->world->size, hosts = count_hosts(all, ranks);
    x->host = mega_calloc((size_t)hosts + 1, sizeof *x->host);
    x->rank = mega_calloc((size_t)ranks, sizeof *x->rank);
    x->host_of = mega_calloc((size_t)ranks, sizeof *x->host_of);
    x->port = mega_calloc((size_t)ranks, sizeof *x->port);
    x->heard = mega_calloc((size_t)ranks, sizeof *x->heard);
    if (x->host == NULL || x->rank == NULL || x->host_of == NULL || x->port == NULL || x->heard == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "records of %d ranks on %d hosts: no memory", ranks, hosts);
    for (int r = 0; r < ranks; r++)
        if (all[r].leader == r) name_host(&x->host[x->hosts++], &all[r], r);
    for (int r = 0; r < ranks; r++) {
        x->port[r] = all[r].port;
        x->host_of[r] = hosts_find(x, all[r].leader);
    }
    x->home = x->host_of[x->world->rank];
    memcpy(x->secret, all[0].secret, sizeof x->secret);
    sort_ranks(x);
    return MEGA_OK;
}

void exchange_hosts_fini(record_exchange *x)
{
    mega_free(x->host);
    mega_free(x->rank);
    mega_free(x->host_of);
    mega_free(x->port);
    mega_free(x->heard);
}
