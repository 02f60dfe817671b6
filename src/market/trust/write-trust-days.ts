import { bumpControlVersion } from '../../base/db/control-version.ts'
import { type Pool, transaction } from '../../base/db/pool.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { shownDay, utcDayOf } from '../supply/hosters/shown-score.ts'
import { readHosterFacts } from './evidence/hoster-facts.ts'
import { hasTrustDays, noteTrustDays, pruneTrustDays, writeTrustDay } from './evidence/trust-day-store.ts'
import { readFigures, roundFigures } from './trust-figures.ts'

/**
 * Writes what hosters and the public will see of this UTC day, for every hoster, and deletes what is older than 90
 * days. Each run of a day replaces the rows of the earlier ones, so the last one stands: run it as a job, also shortly
 * before midnight. Several runs at once do no harm.
 *
 * The evidence of the sequential tests cannot be computed for a time in the past. So the row of a day is written during
 * the day, and never after it: it cannot have an audit of a later day.
 */
export async function writeTrustDays({ pool, clock }: { readonly pool: Pool; readonly clock: Clock }): Promise<void> {
  const isFirstRun = !(await hasTrustDays(pool))
  let isNewDay = false
  for (const facts of await readHosterFacts(pool)) {
    const nowMs = clock.epochMs()
    const day = utcDayOf(nowMs)
    const figures = roundFigures(await readFigures(pool, facts, nowMs))
    // Midnight has passed since, so the figures may have audits of the new day. The next run writes them.
    if (utcDayOf(clock.epochMs()) !== day) break
    // At the upgrade from versions that showed all audits at once: it reveals nothing new, and scores do not vanish for
    // two days.
    if (isFirstRun) await writeTrustDay(pool, facts.hosterId, { day: shownDay(nowMs), figures })
    if (await writeTrustDay(pool, facts.hosterId, { day, figures })) isNewDay = true
  }
  await transaction(pool, async sql => {
    if (isFirstRun) await noteTrustDays(sql, clock.epochMs())
    await pruneTrustDays(sql, clock.epochMs())
    // Quotes and receipts show the score of the day before yesterday from now on.
    if (isNewDay) await bumpControlVersion(sql, 'supply')
  })
}

/**
 * Writes the first days of an installation at its start, so that what hosters and the public saw before an upgrade does
 * not vanish until the first run of the job.
 */
export async function writeFirstTrustDays(deps: Parameters<typeof writeTrustDays>[0]): Promise<void> {
  if (!(await hasTrustDays(deps.pool))) await writeTrustDays(deps)
}
