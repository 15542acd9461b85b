/* open(2) by the 32-bit entry of the same kernel, which a filter for 64-bit numbers would take for fstat(2). */
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
#if defined(__x86_64__)
    /* A 32-bit call takes 32-bit addresses. */
    char *low = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    int fd;
    if (argc < 2 || low == MAP_FAILED)
        return 1;
    strncpy(low, argv[1], 4095);
    __asm__ volatile("int $0x80" : "=a"(fd) : "a"(5), "b"(low), "c"(0), "d"(0) : "memory");
    return fd < 0;
#else
    return 1;
#endif
}
