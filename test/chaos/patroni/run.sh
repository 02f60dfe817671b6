#!/bin/sh
# Runs run.ts with network, files in memory and processes of its own: nothing of it is left when it ends, however it ends.
# The shell stays, because its first process must take the exit codes of orphans, such as those of a killed PostgreSQL.
exec unshare --net --mount --ipc --pid --fork --kill-child --mount-proc sh -c '
  mount -t tmpfs tmpfs /run && export TMPDIR=/run && node test/chaos/patroni/run.ts "$@"' sh "$@"
