/* Begin and commit by Intel RTM. They keep all registers but r11 (LLVM's preserve_most), for a
   transaction that is aborted comes back to xbegin with all registers as they were, but for eax. */
  .text
  .globl sparecraft_tx_begin, sparecraft_tx_commit
  .type sparecraft_tx_begin, @function
  .type sparecraft_tx_commit, @function

sparecraft_tx_begin:
  cmpb $0, sparecraft_tx_engine(%rip)
  je .Lnone
  xtest
  jz .Lfresh
  xend
.Lfresh:
  movq sparecraft_tx_tries@gottpoff(%rip), %r11
  movl $0, %fs:(%r11)
  movq sparecraft_tx_counts@gottpoff(%rip), %r11
  movq %fs:(%r11), %r11
  incq (%r11)
.Lagain:
  movq %rax, %r11
  xbegin .Laborted
.Lnone:
  ret
.Laborted:
  pushq %r11
  pushq %rcx
  pushq %rdx
  pushq %rsi
  pushq %rdi
  pushq %r8
  pushq %r9
  pushq %r10
  subq $8, %rsp
  movl %eax, %edi
  call sparecraft_tx_aborted
  movl %eax, %r11d
  addq $8, %rsp
  popq %r10
  popq %r9
  popq %r8
  popq %rdi
  popq %rsi
  popq %rdx
  popq %rcx
  popq %rax
  testl %r11d, %r11d
  jnz .Lagain
  ret

sparecraft_tx_commit:
  cmpb $0, sparecraft_tx_engine(%rip)
  je .Lclosed
  xtest
  jz .Lclosed
  xend
.Lclosed:
  ret

  .section .note.GNU-stack, "", @progbits
