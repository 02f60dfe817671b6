import { readFileSync, writeFileSync } from 'node:fs'

const SETTING = '/proc/sys/kernel/sched_autogroup_enabled'

/** Linux shares the cores out between sessions first, and between the processes of each session only then (sched(7), "The autogroup feature"). */
export function isAutogroupOn(): boolean {
  try {
    return readFileSync(SETTING, 'utf8').trim() === '1'
  } catch {
    // Another system, or a kernel without it.
    return false
  }
}

/**
 * Turns it off for what is started from now on, and on again when this process exits; it takes root. Each process of PostgreSQL is a session of
 * its own. As long as sessions are equals, its SCHED_IDLE counts for nothing: beside a batch of settlements the load waited for up to
 * two ticks of 4 ms, every 60 ms (`perf sched timehist`, Linux 6.18).
 */
export function turnAutogroupOff(): void {
  if (!isAutogroupOn()) return
  try {
    writeFileSync(SETTING, '0')
  } catch {
    // The report says that it is on.
    return
  }
  process.once('exit', () => writeFileSync(SETTING, '1'))
}
