/* System calls that fail on demand, for LD_PRELOAD. Armed through ctypes by test_publish_faults.py,
   so that only the calls between arm and disarm are touched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static const char* armed = "";
static int error_number = 0;
static int calls = 0;

void faults_arm(const char* name, int error) {
  calls = 0;
  error_number = error;
  armed = strdup(name);
}

int faults_calls(void) { return calls; }

static int hit(const char* name) {
  if (strcmp(armed, name) != 0) return 0;
  ++calls;
  errno = error_number;
  return 1;
}

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

ssize_t write(int fd, const void* data, size_t size) {
  ssize_t (*real)(int, const void*, size_t) = NEXT(ssize_t(*)(int, const void*, size_t), "write");
  if (hit("write")) return -1;
  if (hit("short-writes")) { /* one byte at a time, every second call interrupted */
    if (calls % 2 == 0) {
      errno = EINTR;
      return -1;
    }
    return real(fd, data, size < 1 ? size : 1);
  }
  if (hit("second-write")) {
    if (calls > 1) return -1;
    return real(fd, data, size / 2);
  }
  return real(fd, data, size);
}

int fsync(int fd) {
  int (*real)(int) = NEXT(int (*)(int), "fsync");
  if (hit("fsync")) return -1;
  if (hit("fsync-interrupted")) {
    if (calls < 3) {
      errno = EINTR;
      return -1;
    }
  }
  if (hit("count-fsync")) errno = 0;
  struct stat info;
  if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) && hit("fsync-folder")) return -1;
  return real(fd);
}

int renameat(int from, const char* old, int to, const char* new_name) {
  int (*real)(int, const char*, int, const char*) =
      NEXT(int (*)(int, const char*, int, const char*), "renameat");
  if (hit("renameat")) return -1;
  return real(from, old, to, new_name);
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  void* (*real)(void*, size_t, int, int, int, off_t) =
      NEXT(void* (*)(void*, size_t, int, int, int, off_t), "mmap");
  if (fd >= 0 && hit("mmap")) return MAP_FAILED;
  return real(at, size, protection, flags, fd, offset);
}

ssize_t read(int fd, void* data, size_t size) {
  ssize_t (*real)(int, void*, size_t) = NEXT(ssize_t(*)(int, void*, size_t), "read");
  if (hit("read")) return -1;
  if (hit("short-reads")) {
    if (calls % 2 == 0) {
      errno = EINTR;
      return -1;
    }
    return real(fd, data, size < 7 ? size : 7);
  }
  return real(fd, data, size);
}
