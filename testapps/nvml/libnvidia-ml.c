// The management library of a machine with one card, which sleeps until it has been looked at for the second time and is awake from then
// on. Only what is asked of it is there. Written from the documented API, without its header: the types are integers.
//
// In the environment, LGSIM_NVML_FAIL=1: the initialisation answers that no driver is loaded.
#include <stdio.h>
#include <stdlib.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, DRIVER_NOT_LOADED = 9 };
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2 };

typedef void *Device;

static int looks;
static int the_card;

static int awake(void) { return looks > 1; }

int nvmlInit_v2(void) { return getenv("LGSIM_NVML_FAIL") ? DRIVER_NOT_LOADED : SUCCESS; }

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int result) {
  return result == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
  snprintf(version, length, "580.00");
  return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = 1;
  return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
  *device = &the_card;
  return index == 0 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetName(Device device, char *name, unsigned length) {
  (void)device;
  snprintf(name, length, "Simulated card");
  return SUCCESS;
}

int nvmlDeviceGetUUID(Device device, char *uuid, unsigned length) {
  (void)device;
  snprintf(uuid, length, "GPU-00000000-0000-0000-0000-000000000000");
  return SUCCESS;
}

int nvmlDeviceGetPersistenceMode(Device device, unsigned *mode) {
  (void)device;
  *mode = 0;
  return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(Device device, unsigned type, unsigned *mhz) {
  (void)device;
  *mhz = type == CLOCK_SM ? 1980 : 2619;
  return SUCCESS;
}

// Asked first at each look.
int nvmlDeviceGetPerformanceState(Device device, unsigned *state) {
  (void)device;
  looks++;
  *state = awake() ? 0 : 8;
  return SUCCESS;
}

int nvmlDeviceGetClockInfo(Device device, unsigned type, unsigned *mhz) {
  (void)device;
  *mhz = type == CLOCK_SM ? (awake() ? 1980 : 345) : (awake() ? 2619 : 405);
  return SUCCESS;
}

int nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned *degrees) {
  (void)device;
  (void)sensor;
  *degrees = awake() ? 40 : 31;
  return SUCCESS;
}

int nvmlDeviceGetPowerUsage(Device device, unsigned *milliwatts) {
  (void)device;
  *milliwatts = awake() ? 310000 : 70000;
  return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long *reasons) {
  (void)device;
  *reasons = awake() ? 0x4 | 0x20 : 0x1;
  return SUCCESS;
}
