import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import type { Figure } from './spread.ts'

export type Calm<Result> = Result & {
  /** Share of all cores' time, 0 to 1, that was stolen while this was measured; null when unknown. */
  stolenShare: Figure
  /** How often it was measured, this time included. */
  tries: number
}

/**
 * While the host of a virtual machine has its cores do something else, that counts as the delay of what is measured. So a round of delays in
 * which more than 0.5 % was stolen is measured again, once more, and the calmer is kept: never chosen by what it measured.
 */
export async function measureCalmly<Result extends object>(measure: () => Promise<Result>): Promise<Calm<Result>> {
  const first = await watchStolen(measure)
  if (first.stolenShare === null || first.stolenShare <= STOLEN_SHARE_MAX) return { ...first, tries: 1 }
  const second = await watchStolen(measure)
  return { ...(second.stolenShare! < first.stolenShare ? second : first), tries: 2 }
}

/** 5 ms of each second: half of the time that a p99 leaves out. */
const STOLEN_SHARE_MAX = 0.005

async function watchStolen<Result>(measure: () => Promise<Result>): Promise<Result & { stolenShare: Figure }> {
  const stolenBefore = readStolenMs()
  const startedMs = performance.now()
  const result = await measure()
  const allCoresMs = (performance.now() - startedMs) * cpus().length
  const stolenAfter = readStolenMs()
  const stolenShare = stolenBefore === null || stolenAfter === null ? null : (stolenAfter - stolenBefore) / allCoresMs
  return { ...result, stolenShare }
}

/** Time in which all cores together had something to run and did not get to it, since the system started; null where there is no /proc. */
function readStolenMs(): number | null {
  try {
    // "steal", the eighth figure in the line of all cores, in hundredths of a second (proc_stat(5)).
    return Number(readFileSync('/proc/stat', 'utf8').match(/^cpu +(?:\d+ ){7}(\d+)/)?.[1]) * 10
  } catch {
    return null
  }
}
