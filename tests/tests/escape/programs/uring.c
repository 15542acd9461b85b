/* Opens and prints a file by io_uring, past any filter of open(2) and read(2). */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct io_uring_params p;
static char *sq, *cq;
static struct io_uring_sqe *sqes;
static int ring;

static int submit(struct io_uring_sqe sqe) {
    unsigned *tail = (unsigned *)(sq + p.sq_off.tail), *array = (unsigned *)(sq + p.sq_off.array);
    unsigned *head = (unsigned *)(cq + p.cq_off.head);
    sqes[0] = sqe;
    array[*tail & *(unsigned *)(sq + p.sq_off.ring_mask)] = 0;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    struct io_uring_cqe *cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
    int result = cqes[*head & *(unsigned *)(cq + p.cq_off.ring_mask)].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}

int main(int argc, char **argv) {
    char buffer[256] = {0};
    struct io_uring_sqe sqe;
    ring = syscall(SYS_io_uring_setup, 4, &p);
    if (argc < 2 || ring < 0)
        return perror("io_uring_setup"), 1;
    sq = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    cq = p.features & IORING_FEAT_SINGLE_MMAP ? sq : mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    sqes = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    memset(&sqe, 0, sizeof sqe);
    sqe.opcode = IORING_OP_OPENAT;
    sqe.fd = AT_FDCWD;
    sqe.addr = (unsigned long)argv[1];
    int fd = submit(sqe);
    memset(&sqe, 0, sizeof sqe);
    sqe.opcode = IORING_OP_READ;
    sqe.fd = fd;
    sqe.addr = (unsigned long)buffer;
    sqe.len = sizeof buffer - 1;
    submit(sqe);
    return puts(buffer), 0;
}
