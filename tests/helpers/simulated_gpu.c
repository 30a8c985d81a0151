/* What a TVM needs of CUDA's driver (compiled with -DDRIVER) and runtime, for a GPU that computes
 * nothing: a launch advances a clock by a latency that depends on the grid. Contexts do not survive a
 * fork, blocks have at most 1,024 threads, and after a fault every call of the process fails, as with
 * a real one. SIMULATED_FAULT=n lets the n-th launch of each process fault. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, ILLEGAL_ADDRESS = 700 };
int simulated_enter(void);
extern double simulated_seconds;
#define ENTER                      \
  int error = simulated_enter();   \
  if (error) return error

#ifdef DRIVER

double simulated_seconds;
static int owner, sticky;

int simulated_enter(void) {
  if (!owner) owner = getpid();
  return owner == getpid() ? sticky : NOT_INITIALIZED;
}

int cuGetErrorName(int error, const char** name) {
  *name = error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_THE_SIMULATION";
  return SUCCESS;
}
int cuGetErrorString(int error, const char** text) { return cuGetErrorName(error, text); }

int cuDeviceGetName(char* name, int length, int device) {
  ENTER;
  strncpy(name, "simulated", length);
  return SUCCESS;
}

/* Of a module or function, only that there is one, and that it is not used once it is unloaded. */
int cuModuleLoadData(int** module, const void* image) {
  ENTER;
  *module = malloc(sizeof(int));
  **module = 1;
  return SUCCESS;
}
int cuModuleGetFunction(int** function, int* module, const char* name) {
  ENTER;
  *function = module;
  return SUCCESS;
}
int cuModuleUnload(int* module) {
  *module = 0;
  return sticky;
}
int cuModuleGetGlobal_v2(void** pointer, size_t* size, void* module, const char* name) { return 500; }
int cuFuncSetAttribute(void* function, int attribute, int value) { return simulated_enter(); }
int cuMemsetD32_v2(unsigned long long pointer, unsigned value, size_t count) { return SUCCESS; }
int cuTensorMapEncodeTiled(void) { return SUCCESS; }

static int launch(const int* function, const unsigned* grid, const unsigned* block) {
  static long launches;
  ENTER;
  if (!*function) return INVALID_VALUE;
  unsigned long threads = (unsigned long)block[0] * block[1] * block[2];
  double blocks = (double)grid[0] * grid[1] * grid[2];
  if (threads < 1 || threads > 1024) return INVALID_VALUE;
  const char* fault = getenv("SIMULATED_FAULT");
  if (++launches == (fault ? atol(fault) : 0)) sticky = ILLEGAL_ADDRESS;
  unsigned some = (grid[0] * 7 + grid[1] * 3 + block[0] * 13 + block[1] * 5) % 17;
  simulated_seconds += (3e-6 + 2e-12 * blocks * threads) * (1 + some / 17.0);
  return SUCCESS;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* stream, void** arguments, void** extra) {
  return launch(function, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz});
}
int cuLaunchKernelEx(const unsigned* config, void* function, void** arguments, void** extra) {
  return launch(function, config, config + 3);
}

#else

int cudaGetDeviceCount(int* count) { ENTER; *count = 1; return SUCCESS; }
int cudaGetDevice(int* device) { ENTER; *device = 0; return SUCCESS; }
int cudaSetDevice(int device) { return simulated_enter(); }
int cudaGetDeviceProperties(void* properties, int device) { return simulated_enter(); }
int cudaGetDeviceProperties_v2(void* properties, int device) { return simulated_enter(); }

/* By the numbers of CUDA's enumeration: an H200, as far as TVM asks. */
int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  ENTER;
  switch (attribute) {
    case 1: case 2: case 3: *value = 1024; break;  /* threads of a block, and along x and y */
    case 4: *value = 64; break;                    /* along z */
    case 8: *value = 49152; break;                 /* bytes of shared memory of a block */
    case 10: *value = 32; break;                   /* threads of a warp */
    case 12: *value = 65536; break;                /* registers of a block */
    case 13: *value = 1980000; break;              /* kHz */
    case 16: *value = 132; break;                  /* multiprocessors */
    case 75: *value = 9; break;                    /* compute capability 9.0 */
    default: *value = 0;
  }
  return SUCCESS;
}

const char* cudaGetErrorString(int error) {
  return error == ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
       : error == NOT_INITIALIZED ? "initialization error" : "an error of the simulation";
}
const char* cudaGetErrorName(int error) { return cudaGetErrorString(error); }
int cudaGetLastError(void) { return simulated_enter(); }
int cudaPeekAtLastError(void) { return simulated_enter(); }

int cudaEventCreate(double** event) { ENTER; *event = calloc(1, sizeof(double)); return SUCCESS; }
int cudaEventDestroy(double* event) { ENTER; free(event); return SUCCESS; }
int cudaEventRecord(double* event, void* stream) { ENTER; *event = simulated_seconds; return SUCCESS; }
int cudaEventSynchronize(double* event) { return simulated_enter(); }
int cudaEventElapsedTime(float* milliseconds, const double* start, const double* end) {
  ENTER;
  *milliseconds = 1e3 * (*end - *start);
  return SUCCESS;
}

/* The size is before the memory, of which only the pages that are touched exist. */
int cudaMalloc(char** pointer, size_t size) {
  ENTER;
  size_t* pages = mmap(0, size + 4096, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return OUT_OF_MEMORY;
  *pages = size + 4096;
  *pointer = (char*)pages + 4096;
  return SUCCESS;
}
int cudaFree(char* pointer) {
  ENTER;
  if (pointer) munmap(pointer - 4096, *(size_t*)(pointer - 4096));
  return SUCCESS;
}
int cudaMallocHost(void** pointer, size_t size) { *pointer = malloc(size); return SUCCESS; }
int cudaFreeHost(void* pointer) { free(pointer); return SUCCESS; }
int cudaMemGetInfo(size_t* left, size_t* total) { ENTER; *left = *total = 1l << 37; return SUCCESS; }
int cudaMemcpyAsync(void* to, const void* from, size_t size, int kind, void* stream) {
  ENTER;
  memcpy(to, from, size);
  return SUCCESS;
}
int cudaMemcpyPeerAsync(void* to, int a, const void* from, int b, size_t size, void* stream) {
  return cudaMemcpyAsync(to, from, size, 0, stream);
}
int cudaMemsetAsync(void* to, int value, size_t size, void* stream) {
  ENTER;
  memset(to, value, size);
  return SUCCESS;
}
int cudaStreamCreate(void** stream) { ENTER; *stream = malloc(1); return SUCCESS; }
int cudaStreamCreateWithFlags(void** stream, unsigned flags) { return cudaStreamCreate(stream); }
int cudaStreamDestroy(void* stream) { return SUCCESS; }
int cudaStreamSynchronize(void* stream) { return simulated_enter(); }
int cudaStreamWaitEvent(void* stream, void* event, unsigned flags) { return simulated_enter(); }

/* TVM links these, and does not call them here. */
int cudaStreamBeginCapture(void) { return INVALID_VALUE; }
int cudaStreamEndCapture(void) { return INVALID_VALUE; }
int cudaGraphDestroy(void) { return INVALID_VALUE; }
int cudaGraphExecDestroy(void) { return INVALID_VALUE; }
int cudaGraphInstantiate(void) { return INVALID_VALUE; }
int cudaGraphLaunch(void) { return INVALID_VALUE; }

#endif
