/** Decides whether a crashed worker is started again. */
export interface CrashLimit {
  /**
   * Records a crash of `worker` at `atMs`, monotonic. Returns the delay before its next start, ms, or null
   * when the workers crash too often.
   */
  crashed(worker: number, atMs: number): number | null
}

const WINDOW_MS = 60_000
const FIRST_DELAY_MS = 100
const DELAY_MAX_MS = 5_000
const SPARE_CRASHES = 4

/**
 * Each crash of the same worker within a minute doubles its delay, from 100 ms up to 5 s. All workers together
 * may crash `workers + 4` times a minute. That covers one crash each, as when the machine runs out of memory,
 * and a few more.
 */
export function createCrashLimit({ workers }: { workers: number }): CrashLimit {
  let recent: { readonly worker: number; readonly atMs: number }[] = []
  return {
    crashed(worker, atMs) {
      recent = [...recent.filter(crash => atMs - crash.atMs < WINDOW_MS), { worker, atMs }]
      if (recent.length > workers + SPARE_CRASHES) return null
      const crashes = recent.filter(crash => crash.worker === worker).length
      return Math.min(FIRST_DELAY_MS * 2 ** (crashes - 1), DELAY_MAX_MS)
    },
  }
}
