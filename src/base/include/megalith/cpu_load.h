/* What the cores that a run may use did between two readings: what the run used, and what it did not get. */
#ifndef MEGALITH_CPU_LOAD_H
#define MEGALITH_CPU_LOAD_H

#include "megalith/status.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fractions of the time of all these cores, from 0 to 1. */
typedef struct mega_cpu_load {
    double seconds; /* between the readings */
    int cores;      /* in the affinity masks of the run's processes */
    double own;     /* used by the run's processes */
    double others;  /* used by other processes and by interrupts, but for what the quota would have kept from the run */
    double stolen;  /* in which the hypervisor ran something else */
    double throttled; /* in which the quota of the control group stopped threads that wanted to run */
} mega_cpu_load;

/* The fraction of the cores' time that a run of so many threads could have used and did not get. Cores that it leaves
 * idle anyway do not count. Above MEGA_CPU_LOAD_MARK its speed says little of the program. */
double mega_cpu_load_missed(const mega_cpu_load *load, int threads);
#define MEGA_CPU_LOAD_MARK 0.05
/* "others took 24 %, the hypervisor 8 %, the quota 3 % of the cores", without what is below 1 %; NULL: all are. */
const char *mega_cpu_load_text(char *out, int size, const mega_cpu_load *load);

/* One core: busy with anything, the run included; stolen by the hypervisor. */
typedef struct mega_cpu_core_load {
    int number;
    double busy, stolen;
} mega_cpu_core_load;

typedef struct mega_cpu_meter mega_cpu_meter;

/* A meter of the run that consists of `count` processes of this host; 0: of this process. It has taken its first
 * reading. *out is NULL, with MEGA_OK, where the system does not tell; the functions below take NULL. */
mega_status mega_cpu_meter_create(mega_cpu_meter **out, const int *pids, int count);
void mega_cpu_meter_destroy(mega_cpu_meter *meter);
/* Reads again (a small file of the system for the cores, one for each process and those of the control group; nothing
 * is allocated) and compares with the reading of mega_cpu_meter_begin, or with the first. False, with *out zero: the
 * system did not tell, or less than least_s seconds have passed since, and nothing was read. The counters grow by steps
 * of 10 ms: of 0.2 s a core's figure may be 5 % wrong. */
bool mega_cpu_meter_read(mega_cpu_meter *meter, double least_s, mega_cpu_load *out);
/* From now on mega_cpu_meter_read compares with the reading that it took last. */
void mega_cpu_meter_begin(mega_cpu_meter *meter);
int mega_cpu_meter_cores(const mega_cpu_meter *meter);
/* Core i of them, by rising numbers: what it did up to the last reading. */
mega_cpu_core_load mega_cpu_meter_core(const mega_cpu_meter *meter, int i);

/* "4 cores (4-7), 4 of 45 % of their capacity (0-3)" where these cores are of several kinds, as laptops and phones have
 * them; NULL where they are alike or the system does not tell. */
const char *mega_cpu_kinds(char *out, int size, const int *core, int count);

#ifdef __cplusplus
}
#endif

#endif
