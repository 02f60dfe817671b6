import { bumpControlVersion } from '../../base/db/control-version.ts'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { HOUR_MS, MINUTE_MS } from '../../base/domain/durations.ts'
import { groupBy, valueAt } from '../../base/runtime/collections.ts'
import { addTraffic } from '../marketplace/traffic.ts'
import { insertAudit } from './evidence/audit-store.ts'
import { lockSources, readRatio, type StoredSource, writeRatio, writeSource } from './evidence/meter-store.ts'
import { addPayers } from './evidence/payers.ts'
import { readReports, type SampledReport } from './evidence/read-reports.ts'
import { readRequests, type Span } from './evidence/read-requests.ts'
import { addCustomerEvidence, lockTrust, type StoredTrust, writeTrust } from './evidence/trust-store.ts'
import { addAudit } from './hoster-evidence.ts'
import { type LearnedRatio, learnRatio } from './learn-ratio.ts'
import { auditMeter, batchReports, COUNTED_MIN } from './meter-audit.ts'
import { createRelatedHosters } from './related-hosters.ts'
import { tallyEvidence } from './request-tally.ts'

/** What one transaction reads at most. The job runs each minute, so it is usually a minute. */
const SPAN_MS_MAX = 5 * MINUTE_MS
/** How far back the first run of an installation reads. */
const FIRST_SPAN_MS = HOUR_MS

/**
 * Adds the usage rows of the next span of time to the evidence, to the standing of offers and to the traffic that
 * hosters see, in the transaction that also advances the span: each row counts once, whatever crashes. Returns false
 * when there is nothing left to read.
 *
 * @param delayMs A request counts by the time at which it began, and its row may come much later: after a long answer, or from the
 *   journal of a node that crashed. Rows that come later than this count for nothing.
 */
export async function readSpan(sql: Sql, nowMs: number, delayMs: number): Promise<boolean> {
  const untilMs = nowMs - delayMs
  const fromMs = await lockProgress(sql, untilMs - FIRST_SPAN_MS)
  if (fromMs >= untilMs) return false
  const span: Span = { fromMs, toMs: Math.min(fromMs + SPAN_MS_MAX, untilMs) }
  await addTraffic(sql, span)
  await addPayers(sql, span)
  const [requests, reports] = [await readRequests(sql, span), await readReports(sql, span)]
  const hosterIds = new Set([...requests, ...reports].flatMap(({ hosterId }) => hosterId ?? []))
  const trusts = await lockTrust(sql, [...hosterIds].sort())
  for (const [hosterId, tallies] of Map.groupBy(requests, ({ hosterId }) => hosterId)) {
    const before = valueAt(trusts, hosterId)
    const good = tallies.reduce((sum, tally) => sum + tally.good, 0)
    const weight = tallies.reduce((sum, tally) => sum + tally.weight, 0)
    const faults = tallies.reduce((sum, tally) => sum + tally.faults, 0)
    const part = Math.min(1, good / TYPICAL_OVER)
    const typicalWeight = good === 0 ? before.typicalWeight : before.typicalWeight * (1 - part) + (weight / good) * part
    for (const tally of tallies) await addCustomerEvidence(sql, tally, tallyEvidence(tally, typicalWeight, span.toMs))
    trusts.set(hosterId, { ...before, typicalWeight, requests: before.requests + good + faults })
  }
  for (const [modelId, ofModel] of Map.groupBy(reports, ({ modelId }) => modelId))
    await addReports(sql, modelId, ofModel, trusts, span.toMs)
  for (const trust of trusts.values()) await writeTrust(sql, trust, span.toMs)
  await writeProgress(sql, span.toMs)
  return true
}

/** The mean weight follows the last few hundred requests. */
const TYPICAL_OVER = 200

/** Learns the ratio of a model from new reports, and audits the reports of its hosters. */
async function addReports(
  sql: Sql,
  modelId: string,
  reports: readonly SampledReport[],
  trusts: Map<string, StoredTrust>,
  atMs: number,
): Promise<void> {
  const sources = new Map((await lockSources(sql, modelId)).map(source => [source.endpointId, source]))
  const isHosted = [...sources.values(), ...reports].some(({ hosterId }) => hosterId !== null)
  if (!isHosted) return
  for (const [endpointId, ofEndpoint] of groupBy(reports, ({ endpointId }) => endpointId)) {
    const { hosterId } = ofEndpoint[0]
    const before: StoredSource = sources.get(endpointId) ?? {
      modelId,
      endpointId,
      hosterId,
      isLocal: hosterId === null,
      input: [],
      output: [],
      waiting: [],
    }
    sources.set(endpointId, {
      ...before,
      input: [...before.input, ...logRatios(ofEndpoint, 'Input')],
      output: [...before.output, ...logRatios(ofEndpoint, 'Output')],
      waiting: hosterId === null ? [] : [...before.waiting, ...ofEndpoint.map(useOf)],
    })
  }
  const hosterIds = [...new Set([...sources.values()].flatMap(({ hosterId }) => hosterId ?? []))]
  const groups = await createRelatedHosters(sql).groups(hosterIds)
  const learned = learnRatio(
    [...sources.values()].map(source =>
      source.hosterId === null ? source : { ...source, voter: valueAt(groups, source.hosterId) },
    ),
  )
  if (hasChanged(await readRatio(sql, modelId), learned)) {
    await writeRatio(sql, modelId, learned, atMs)
    await bumpControlVersion(sql, 'supply')
  }
  for (const source of sources.values()) {
    const waiting = await auditReports(sql, source, learned, trusts, atMs)
    await writeSource(sql, { ...source, waiting }, atMs)
  }
}

/** Reports that wait for customers to fill a batch. */
const WAITING_MAX = 96

/** Audits full batches. Returns the reports that wait for the next one. */
async function auditReports(
  sql: Sql,
  { modelId, hosterId, waiting }: StoredSource,
  learned: LearnedRatio,
  trusts: Map<string, StoredTrust>,
  atMs: number,
): Promise<StoredSource['waiting']> {
  const trust = hosterId === null ? undefined : trusts.get(hosterId)
  if (hosterId === null || trust === undefined || !learned.isLearned) return waiting.slice(-WAITING_MAX)
  const batches = batchReports(waiting)
  let { evidence } = trust
  for (const batch of batches) {
    const { eValues, hasPassed, shift } = auditMeter(batch, learned)
    const result = { kind: 'meter', eValues, hasPassed, atMs } as const
    evidence = addAudit(evidence, result)
    await insertAudit(sql, { ...result, hosterId, modelId, statistic: shift, sample: batch.length })
  }
  trusts.set(hosterId, { ...trust, evidence })
  const used = new Set(batches.flat())
  return waiting.filter(use => !used.has(use)).slice(-WAITING_MAX)
}

function useOf({ customerId, reportedInput, countedInput, reportedOutput, countedOutput }: SampledReport) {
  return { customerId, reportedInput, countedInput, reportedOutput, countedOutput }
}

function logRatios(reports: readonly SampledReport[], side: 'Input' | 'Output'): number[] {
  return reports.flatMap(report => {
    const counted = report[`counted${side}`]
    return counted < COUNTED_MIN ? [] : [Math.log(report[`reported${side}`] / counted)]
  })
}

/** A change that moves no bill by half a percent is not worth a new catalog on every node. */
function hasChanged(before: LearnedRatio | undefined, after: LearnedRatio): boolean {
  if (before === undefined || before.isLearned !== after.isLearned) return true
  return Math.abs(Math.log(before.input / after.input)) + Math.abs(Math.log(before.output / after.output)) > 0.005
}

const NAME = 'trust_read_until'

/**
 * Returns until when usage rows were read, Unix ms, and locks it until the transaction ends: two jobs at once would
 * count rows twice. The first call starts at `startMs`, so an installation with years of rows does not read them all.
 */
async function lockProgress(sql: Sql, startMs: number): Promise<number> {
  await sql.query('INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING', [
    NAME,
    new Date(startMs).toISOString(),
  ])
  const { value } = await queryRow<{ value: string }>(
    sql,
    'SELECT value FROM installation WHERE name = $1 FOR UPDATE',
    [NAME],
  )
  return Date.parse(value)
}

async function writeProgress(sql: Sql, readUntilMs: number): Promise<void> {
  await sql.query('UPDATE installation SET value = $2 WHERE name = $1', [NAME, new Date(readUntilMs).toISOString()])
}
