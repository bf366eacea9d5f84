/* Ctrl-C. By default it ends the program at once with exit code 130, as shells have it (SIGTERM:
 * 143); while work can be cancelled it wakes the one who waits. */
#pragma once

#include <stdbool.h>

/* Takes SIGINT and SIGTERM over, and has a write to a file that may not grow fail instead of ending
 * the program (SIGXFSZ). Called once, before any thread is made. False when the system refuses. */
bool ommai_interrupt_install(void);

/* From now on the first signal only sets the flag and ends a wait; a second one ends the program at
 * once. Clears the flag. */
void ommai_interrupt_defer(void);

/* What an end at once says after "interrupted: " from now on, a constant string; NULL: no more than
 * that. */
void ommai_interrupt_say(const char *words);

/* Back to ending at once. */
void ommai_interrupt_resume(void);

/* A signal has come since ommai_interrupt_defer. */
bool ommai_interrupted(void);

/* The exit code for that signal: 130, or 143 for SIGTERM. */
int ommai_interrupt_status(void);

/* That signal was SIGTERM: the program is to end. */
bool ommai_interrupt_terminates(void);

/* Sleeps until a signal or ommai_interrupt_wake, which any thread may call; may also return for no
 * reason. */
void ommai_interrupt_wait(void);
void ommai_interrupt_wake(void);

/* The same, and until `descriptor` can be read. */
void ommai_interrupt_wait_or_read(int descriptor);

enum ommai_wait { OMMAI_WAIT_READY, OMMAI_WAIT_INTERRUPTED, OMMAI_WAIT_RESUMED };

/* Sleeps until `descriptor` can be read (READY), a signal has come since ommai_interrupt_defer
 * (INTERRUPTED), or the program, which asked for it, goes on after it was stopped by Ctrl-Z
 * (RESUMED). */
enum ommai_wait ommai_interrupt_wait_for(int descriptor);

/* Asks to be notified: for those who change how the terminal works. False when the system
 * refuses. */
bool ommai_interrupt_watch_resume(void);

/* A descriptor that becomes readable when ommai_interrupt_wait would return, for those who wait for
 * other things as well. */
int ommai_interrupt_descriptor(void);
