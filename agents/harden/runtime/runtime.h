/* What the parts of the run-time library share. */
#pragma once

#include <stdint.h>

/* The exit status of a program that stopped because both streams differ. */
#define SPARECRAFT_STOPPED 97
/* How often a transaction is tried again after a difference. */
#define SPARECRAFT_TRIES 3

/* Of a program whose results can be flipped, else not there. */
__attribute__((weak)) void sparecraft_flip_corrected(void);
__attribute__((weak)) void sparecraft_flip_spent(void);
/* Of a program with hardware transactions, else not there: whether they are used. */
__attribute__((weak)) extern unsigned char sparecraft_tx_engine;
