/* The registers of a checkpoint: all but r11 and the vector registers, which calls of LLVM's
   preserve_most do not keep, so nothing is in them where a transaction begins. */
  .text
  .globl sparecraft_log_begin, sparecraft_log_resume
  .type sparecraft_log_begin, @function
  .type sparecraft_log_resume, @function

sparecraft_log_begin:
  pushq %rax
  pushq %rbp
  pushq %rbx
  pushq %rcx
  pushq %rdx
  pushq %rsi
  pushq %rdi
  pushq %r8
  pushq %r9
  pushq %r10
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, %rdi
  subq $8, %rsp
  call sparecraft_log_begun
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %r10
  popq %r9
  popq %r8
  popq %rdi
  popq %rsi
  popq %rdx
  popq %rcx
  popq %rbx
  popq %rbp
  popq %rax
  ret

/* rdi: the registers as pushed above, then the address to go on at */
sparecraft_log_resume:
  movq %rdi, %r11
  movq (%r11), %r15
  movq 8(%r11), %r14
  movq 16(%r11), %r13
  movq 24(%r11), %r12
  movq 32(%r11), %r10
  movq 40(%r11), %r9
  movq 48(%r11), %r8
  movq 56(%r11), %rdi
  movq 64(%r11), %rsi
  movq 72(%r11), %rdx
  movq 80(%r11), %rcx
  movq 88(%r11), %rbx
  movq 96(%r11), %rbp
  movq 104(%r11), %rax
  movq 120(%r11), %rsp
  jmpq *112(%r11)

  .section .note.GNU-stack, "", @progbits
