/* The limit of open files (`ulimit -n`), of which each connection is one. */
#pragma once

/* Raises the process's limit to what a server of *max_connections needs, as far as the system
 * allows; where that is less, warns and lowers *max_connections to what there is room for. Without
 * that, connections would use up all open files, and then not even health checks would get in.
 * Returns an exit code; the error has been printed, in the name of `command`. */
int ommai_open_files_make_room(const char *command, int *max_connections);
