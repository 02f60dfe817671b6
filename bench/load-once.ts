import type { LoadJob, LoadResult } from './load.ts'
import { ask, type Running } from './process.ts'
import { startCpuWatch } from './process-usage.ts'
import type { Subject } from './subjects/subject.ts'

/**
 * Runs one round of load at a subject. It ends when its charges are committed, so that deferring them brings no advantage.
 *
 * @param load the process that runs load.ts
 */
export async function loadOnce(
  load: Running,
  { url, pid, settled }: Pick<Subject, 'url' | 'pid' | 'settled'>,
  round: Omit<LoadJob, 'url' | 'pid'>,
): Promise<LoadResult> {
  const job: LoadJob = { url, pid, ...round }
  if (settled === undefined || pid === null) return ask<LoadJob, LoadResult>(load, job, 120_000)
  const cpuMicrosUsed = startCpuWatch(pid)
  const result = await ask<LoadJob, LoadResult>(load, job, 120_000)
  const answeredMs = performance.now()
  await settled()
  const elapsedMs = (result.ok / result.rps) * 1000 + (performance.now() - answeredMs)
  const cpuMicros = cpuMicrosUsed()
  const cpuShare = cpuMicros === null ? null : cpuMicros / 1000 / elapsedMs
  return { ...result, rps: (result.ok / elapsedMs) * 1000, cpuShare }
}
