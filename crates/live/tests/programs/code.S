# MB megabytes of code, aligned to ALIGN bytes: a short function in each page of 4 KB, at an offset that varies the cache set.
	.section .text.code, "ax", @progbits
	.globl code
	.balign ALIGN
code:
	.set n, 0
	.rept MB * 256
	.skip 64 + n * 7 % 61 * 64, 0xcc
	lea 1(%rdi,%rdi,2), %rax
	ret
	.balign 4096, 0xcc
	.set n, n + 1
	.endr
	.section .note.GNU-stack, "", @progbits
