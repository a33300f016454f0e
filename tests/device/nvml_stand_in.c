/* A GPU that exists only here: NVML's calls with NVML's layouts, over a clock.
 *
 * Power steps between 110 and 290 W every 20 ms refresh, seven steps a cycle (140 ms: a sampler at 10 Hz must not
 * always meet the same one); the energy counter is its exact integral. The environment
 * variable STAND_IN_LACKS names metrics this GPU does not have ("energy,instant,share"), STAND_IN_LOST_AFTER the
 * number of calls after which it is lost, STAND_IN_NO_GPU leaves the library without one.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, NOT_SUPPORTED = 3, LOST = 15 };
static int calls;

static long long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
static int refuse(const char *metric) {
    const char *lacks = getenv("STAND_IN_LACKS"), *lost = getenv("STAND_IN_LOST_AFTER");
    if (lost && ++calls > atoi(lost)) return LOST;
    return lacks && strstr(lacks, metric) ? NOT_SUPPORTED : OK;
}
/* Refresh k shows 110 W + 30 W times (k mod 7): distinct neighbours, mean 200 W. */
static unsigned watts_at(long long us) { return 110 + 30 * (unsigned)((us / 20000) % 7); }
static unsigned long long millijoules_at(long long us) {
    long long cycle = us / 140000, rest = us % 140000;
    unsigned long long mj = (unsigned long long)cycle * 28000;
    long long done = 0;
    for (unsigned k = 0; done < rest; k++) {
        long long part = rest - done < 20000 ? rest - done : 20000;
        mj += (unsigned long long)(110 + 30 * k) * part / 1000;
        done += part;
    }
    return mj;
}

int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int status) { (void)status; return "as the stand-in pleases"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strncpy(text, "570.1", size); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = getenv("STAND_IN_NO_GPU") ? 0 : 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = (void *)(size_t)(index + 1); return OK; }
int nvmlDeviceGetName(void *handle, char *text, unsigned size) { (void)handle; strncpy(text, "Stand-in", size); return OK; }
int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) {
    strncpy(text, handle == (void *)1 ? "GPU-aaaa" : "GPU-bbbb", size);
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates) {
    (void)handle; rates[0] = 63; rates[1] = 20;
    return refuse("share");
}
int nvmlDeviceGetClockInfo(void *handle, int type, unsigned *mhz) {
    (void)handle; *mhz = type == 1 ? 1980 : 2619;
    return refuse("clock");
}
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory) {
    (void)handle; memory[0] = 1ULL << 34; memory[1] = 1ULL << 33; memory[2] = 1ULL << 33;
    return refuse("memory");
}
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) {
    (void)handle; (void)sensor; *celsius = 41;
    return refuse("temperature");
}
int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    (void)handle; *milliwatts = 200000;
    return refuse("usage");
}
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *millijoules) {
    (void)handle; *millijoules = millijoules_at(now_us());
    return refuse("energy");
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    (void)handle; *reasons = 0x40;
    return OK;
}
struct field {
    unsigned id, scope;
    long long timestamp, latency;
    int type, status;
    union { double d; unsigned ui; unsigned long long ull; } value;
};
int nvmlDeviceGetFieldValues(void *handle, int count, struct field *fields) {
    (void)handle; (void)count;
    fields[0].status = fields[0].id == 185 || fields[0].id == 186 ? refuse("instant") : NOT_SUPPORTED;
    fields[0].value.ui = fields[0].id == 186 ? watts_at(now_us()) * 1000 : 200000;
    return OK;
}
