/* Load a kernel library as Python does, and compare answers of kernels with those of stateproc/codec/native/self_check.py.
   For systems without a Python: musl's loader, Wine. The exit status is 0 if all are right. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef _WIN32
#include <windows.h>
static void *open_library(const char *path) { return (void *)LoadLibraryA(path); }
static void *symbol(void *library, const char *name) { return (void *)GetProcAddress((HMODULE)library, name); }
#else
#include <dlfcn.h>
static void *open_library(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
static void *symbol(void *library, const char *name) { return dlsym(library, name); }
#endif

typedef int32_t (*kernel)(int64_t *words);

static void *library;
static int wrong = 0;

static int64_t call(const char *name, int64_t *words) {
  kernel found = (kernel)symbol(library, name);
  if (!found || found(words) != 0) {
    printf("%s cannot be called\n", name);
    wrong = 1;
  }
  return words[0];
}

static void check(const char *name, int right) {
  printf("%s: %s\n", name, right ? "right" : "WRONG");
  wrong |= !right;
}

static int64_t address(const void *data) { return (int64_t)(intptr_t)data; }

static void check_hashes(const char *name, int32_t first, int32_t second) {
  static const char text[] = "stateproc \xc3\x84\xe2\x82\xac\xf0\x9f\x98\x80";
  int64_t offsets[3] = {0, 9, 19};
  int32_t hashes[2] = {0, 0};
  int64_t words[6] = {address(offsets), 3, address(text), 19, address(hashes), 2};
  call(name, words);
  check(name, hashes[0] == first && hashes[1] == second);
}

static void check_numbers(void) {
  const char *name = "stateproc__codec__encoding__kernels__put_numbers";
  int64_t numbers[2] = {1, -2};
  uint8_t written[16] = {0};
  int64_t at[2] = {address(written), address(written) + 8};
  int64_t words[5] = {address(numbers), 8, 1, address(at), 2};
  call(name, words);
  check(name, memcmp(written, "\0\0\0\0\0\0\0\1\xff\xff\xff\xff\xff\xff\xff\xfe", 16) == 0);
}

static void check_snappy(void) {
  const char *name = "stateproc__readers__rocksdb__compression__decompress_snappy";
  static const char stored[] = "\x2e\x3cstate of Flink, v\x10";
  static const char plain[] = "state of Flink, state of Flink, state of Flink";
  uint8_t is_compressed[1] = {1}, written[46] = {0};
  int64_t zero[1] = {0}, stop[1] = {21}, end[1] = {46};
  int64_t words[12] = {address(stored), address(is_compressed), 1, address(zero), 1, address(stop), 1,
                       address(written), address(zero), 1, address(end), 1};
  int64_t damaged = call(name, words);
  check(name, damaged == -1 && memcmp(written, plain, 46) == 0);
}

/* As self_check._decodes: two rows of a long and a string. The program is given in numbers. */
static void check_decoding(char **codes) {
  const char *name = "stateproc__codec__vm__dispatch__run";
  int32_t program[7];
  static int64_t registers[64], stack[65536], saved[3], columns[9], nothing[1];
  static uint8_t content[3][64];
  static const uint8_t source[22] = {1, 2, 3, 4, 5, 6, 7, 8, 4, 0x61, 0xe9, 1, 0x7a, 0, 0, 0, 0, 0, 0, 0, 2, 1};
  int64_t starts[2] = {0, 13}, ends[2] = {13, 22};
  for (int k = 0; k < 7; k++) sscanf(codes[k], "%d", &program[k]);
  for (int k = 0; k < 3; k++) columns[3 * k] = address(content[k]), columns[3 * k + 2] = 64;
  int64_t words[16] = {address(program), address(nothing), address(nothing), address(source), address(starts), 16,
                       address(ends), 16, 2, 0, address(columns), 3, address(saved), address(registers),
                       address(stack), address(nothing)};
  int64_t outcome = call(name, words);
  check(name, outcome == 1 && memcmp(content[0], "\x08\7\6\5\4\3\2\1\2\0\0\0\0\0\0\0", 16) == 0 &&
                  memcmp(content[1], "\4\0\0\0\0\0\0\0", 8) == 0 && memcmp(content[2], "a\xc3\xa9z", 4) == 0 &&
                  columns[7] == 4);
}

int main(int count, char **arguments) {
  if (count != 9 || !(library = open_library(arguments[1]))) {
    printf("%s cannot be loaded\n", count > 1 ? arguments[1] : "no library");
    return 2;
  }
  check_hashes("stateproc__keygroups__kernels__murmur3_hashes", 1535133216, -1126364451);
  check_hashes("stateproc__keygroups__kernels__utf16_hashes", -2085046425, 45202411);
  check_numbers();
  check_snappy();
  check_decoding(arguments + 2);
  return wrong;
}
