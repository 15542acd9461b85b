/* refork COUNT [SECONDS [SESSIONS]]: forks and goes on in the child, without end but that of its time; each generation counts itself
   in a file, and, with a third argument, begins a session of its own. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int sessions = argc > 3, file = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096)) return 1;
    volatile unsigned long *count = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    time_t end = time(0) + (argc > 2 ? atoi(argv[2]) : 1);
    close(0); close(1); close(2);
    while (time(0) < end) {
        ++*count;
        if (fork() > 0) _exit(0);
        if (sessions) setsid();
    }
    return 0;
}
