/* A family's image as bytes of the plugin; FAMILY and FILE come from the makefile. The CUDA runtime
 * wants it aligned to 16 bytes. */
#define JOIN(a, b) a##b
#define NAME(family) JOIN(orr__cuda_image_, family)
#define END(family) JOIN(orr__cuda_image_end_, family)

    .section .rodata
    .balign 16
    .globl NAME(FAMILY)
    .hidden NAME(FAMILY)
NAME(FAMILY):
    .incbin FILE
    .globl END(FAMILY)
    .hidden END(FAMILY)
END(FAMILY):
    .byte 0

    .section .note.GNU-stack, "", %progbits
