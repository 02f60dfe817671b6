import { readFileSync, writeFileSync } from 'node:fs'

const SETTING = '/proc/sys/kernel/sched_autogroup_enabled'

/** Whether Linux divides CPU time first between sessions, and only then between the processes of a session (sched(7), "The autogroup feature"). */
export function isAutogroupOn(): boolean {
  try {
    return readFileSync(SETTING, 'utf8').trim() === '1'
  } catch {
    // Another operating system, or a kernel without the feature.
    return false
  }
}

/**
 * Turns the autogroup feature off, and on again when this process exits. Needs root. Each process of PostgreSQL is a separate session, and
 * while sessions share CPU time equally, the SCHED_IDLE policy of PostgreSQL has no effect: during a batch of settlements the load waited up
 * to two ticks of 4 ms, every 60 ms (`perf sched timehist`, Linux 6.18).
 */
export function turnAutogroupOff(): void {
  if (!isAutogroupOn()) return
  try {
    writeFileSync(SETTING, '0')
  } catch {
    // Not root. The report notes that autogroup is on.
    return
  }
  process.once('exit', () => writeFileSync(SETTING, '1'))
}
