/* Measures how busy the cores of a run were between two readings: the time that the run used, and the time that others
 * kept from it. */
#ifndef MEGALITH_CPU_LOAD_H
#define MEGALITH_CPU_LOAD_H

#include "megalith/status.h"
#include <stdbool.h>

/* Fractions of the time of all these cores, from 0 to 1. */
typedef struct mega_cpu_load {
    double seconds; /* between the readings */
    int cores;      /* in the affinity masks of the run's processes */
    double own;     /* used by the run's processes */
    /* used by other processes and by interrupts, except for time that the quota would have kept from the run anyway */
    double others;
    double stolen;    /* the hypervisor ran something else */
    double throttled; /* the quota of the control group stopped threads that wanted to run */
} mega_cpu_load;

/* Returns the fraction of the cores' time that a run with this number of threads could have used and did not get. Cores
 * that the run leaves idle do not count. Above MEGA_CPU_LOAD_MARK a measured speed says little about the program. */
double mega_cpu_load_missed(const mega_cpu_load *load, int threads);
#define MEGA_CPU_LOAD_MARK 0.05
/* Writes "others took 24 %, the hypervisor 8 %, the quota 3 % of the cores", without shares below 1 %, and returns out;
 * NULL if all are below. */
const char *mega_cpu_load_text(char *out, int size, const mega_cpu_load *load);

/* One core: busy with anything, including the run; stolen by the hypervisor. */
typedef struct mega_cpu_core_load {
    int number;
    double busy, stolen;
} mega_cpu_core_load;

typedef struct mega_cpu_meter mega_cpu_meter;

/* Creates a meter of the run that consists of `count` processes of this host (0: this process) and takes the first
 * reading. Returns MEGA_OK with *out NULL if the system has no such counters; the functions below accept NULL. */
mega_status mega_cpu_meter_create(const int *pids, int count, mega_cpu_meter **out);
void mega_cpu_meter_destroy(mega_cpu_meter *meter);
/* Takes a reading and compares it with that of mega_cpu_meter_begin, or with the first. Reads one small system file for
 * the cores, one for each process and those of the control group; allocates nothing. Returns false with *out zeroed,
 * and reads nothing, if less than least_s seconds have passed; returns false too if the system gives no counters. The
 * counters have steps of 10 ms, so over 0.2 s a core's figure may be off by 5 %. */
bool mega_cpu_meter_read(mega_cpu_meter *meter, double least_s, mega_cpu_load *out);
/* Makes the last reading the one that later calls of mega_cpu_meter_read compare with. */
void mega_cpu_meter_begin(mega_cpu_meter *meter);
int mega_cpu_meter_cores(const mega_cpu_meter *meter);
/* Returns the load of the i-th core, in ascending order of core numbers, up to the last reading. */
mega_cpu_core_load mega_cpu_meter_core(const mega_cpu_meter *meter, int i);

/* Writes "4 cores (4-7), 4 of 45 % of their capacity (0-3)" if these cores are of several kinds, as in laptops and
 * phones, and returns out; NULL if they are all alike or the system does not say. */
const char *mega_cpu_kinds(char *out, int size, const int *core, int count);

#endif
