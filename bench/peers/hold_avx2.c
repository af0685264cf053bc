// Holds a program to AVX2 without VNNI, whatever the processor has more: a library to preload. The kernel lets the
// instruction by which programs ask for the processor's features fail (arch_prctl(2), ARCH_SET_CPUID); the handler of
// that answers as the processor does, without those features. Programs that were compiled for more are not held.
//
//     gcc -O2 -shared -fPIC -o hold_avx2.so hold_avx2.c
//     LD_PRELOAD=./hold_avx2.so PROGRAM
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { kSetCpuid = 0x1012 };

static long let_cpuid(int allowed) { return syscall(SYS_arch_prctl, kSetCpuid, allowed); }

// Bits by Intel's manual, volume 2A, CPUID.
static void hide(unsigned leaf, unsigned subleaf, unsigned* eax, unsigned* ebx, unsigned* ecx, unsigned* edx) {
  if (leaf == 0x07 && subleaf == 0) {
    *ebx &= ~(1U << 16 | 1U << 17 | 1U << 21 | 1U << 26 | 1U << 27 | 1U << 28 | 1U << 30 | 1U << 31);  // AVX-512
    *ecx &= ~(1U << 1 | 1U << 6 | 1U << 11 | 1U << 12 | 1U << 14);                     // its VBMI, VNNI, ...
    *edx &= ~(1U << 2 | 1U << 3 | 1U << 8 | 1U << 22 | 1U << 23 | 1U << 24 | 1U << 25);  // its FP16, and AMX
  } else if (leaf == 0x07 && subleaf == 1) {
    *eax &= ~(1U << 4 | 1U << 5 | 1U << 21 | 1U << 23);              // AVX-VNNI, BF16, AMX-FP16, AVX-IFMA
    *edx &= ~(1U << 4 | 1U << 5 | 1U << 8 | 1U << 10 | 1U << 19);    // AVX-VNNI-INT8 and -INT16, AVX10
  } else if (leaf == 0x0d && subleaf == 0) {
    *eax &= ~0x600e0U;  // the states of those registers
  } else if (leaf == 0x1d || leaf == 0x1e || leaf == 0x24) {
    *eax = *ebx = *ecx = *edx = 0;
  }
}

static void answer(int number, siginfo_t* info, void* context) {
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* at = (const unsigned char*)registers[REG_RIP];
  if (info->si_code <= 0 || info->si_addr != NULL || at[0] != 0x0f || at[1] != 0xa2) {
    signal(number, SIG_DFL);  // another failure: once more, for good
    return;
  }
  const unsigned leaf = (unsigned)registers[REG_RAX], subleaf = (unsigned)registers[REG_RCX];
  unsigned eax, ebx, ecx, edx;
  let_cpuid(1);
  __cpuid_count(leaf, subleaf, eax, ebx, ecx, edx);
  let_cpuid(0);
  hide(leaf, subleaf, &eax, &ebx, &ecx, &edx);
  registers[REG_RAX] = eax;
  registers[REG_RBX] = ebx;
  registers[REG_RCX] = ecx;
  registers[REG_RDX] = edx;
  registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, NULL);
  if (let_cpuid(0) != 0) {
    static const char kText[] = "hold_avx2: this system cannot hide features of the processor\n";
    const ssize_t written = write(2, kText, sizeof kText - 1);
    _exit(written < 0 ? 2 : 1);
  }
}
