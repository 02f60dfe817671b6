import { randomBytes } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { publicHosters } from '../../src/market/marketplace/public-hosters.ts'
import { readHosterOffers } from '../../src/market/supply/hosters/hoster-offers.ts'
import { setTrustScore } from '../../src/market/supply/hosters/hosters.ts'
import { readShownScore } from '../../src/market/supply/hosters/shown-score.ts'
import { insertAudit } from '../../src/market/trust/evidence/audit-store.ts'
import { lockTrust, writeTrust } from '../../src/market/trust/evidence/trust-store.ts'
import { addAudit } from '../../src/market/trust/hoster-evidence.ts'
import { quarantineHoster } from '../../src/market/trust/quarantine-hoster.ts'
import { scoreHosters } from '../../src/market/trust/score-hosters.ts'
import { createTrustService } from '../../src/market/trust/trust-service.ts'
import { writeFirstTrustDays, writeTrustDays } from '../../src/market/trust/write-trust-days.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { createCustomers, createHoster, insertUsage, NOW_MS } from './trust-world.ts'

// What a hoster and the public see of audits: the state at the end of a UTC day, from 24 hours later on.

const database = useTestDatabase('test')

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** NOW_MS is at noon. */
const MIDNIGHT_MS = NOW_MS + 12 * HOUR_MS

// A new installation: the first run of the job finds no hoster.
beforeEach(() => writeDays(NOW_MS - 10 * DAY_MS))

const at = (nowMs: number) => ({ epochMs: () => nowMs, monotonicMs: () => nowMs })
const writeDays = (nowMs: number) => writeTrustDays({ pool: database.pool, clock: at(nowMs) })
const deskAt = (nowMs: number) =>
  createTrustService({ pool: database.pool, clock: at(nowMs), recognisableModels: () => [] })
const showAll = async (hosterId: string, nowMs: number) => ({
  everybody: await deskAt(nowMs).show(hosterId),
  itself: await deskAt(nowMs).showOwn(hosterId),
  score: await readShownScore(database.pool, hosterId, nowMs),
  listed: await publicHosters(database.pool, hosterId, nowMs),
})

async function score(nowMs: number): Promise<void> {
  const log = { info() {}, warn() {} }
  await scoreHosters({ pool: database.pool, clock: at(nowMs), log, delayMs: 15 * 60_000 })
}

/** Stores an audit like the job that audits. */
async function audit(hosterId: string, atMs: number, hasPassed = true): Promise<void> {
  await transaction(database.pool, async sql => {
    const trust = (await lockTrust(sql, [hosterId])).get(hosterId)!
    const row = {
      ...({ hosterId, modelId: 'm', kind: 'sampling', eValues: [hasPassed ? 0.9 : 40], hasPassed, atMs } as const),
      ...{ statistic: hasPassed ? 0.512345 : 0.0012345, sample: 16 },
    }
    await insertAudit(sql, row)
    await writeTrust(sql, { ...trust, evidence: addAudit(trust.evidence, row) }, atMs)
  })
}

async function rows(hosterId: string): Promise<readonly { day: string; shown: object }[]> {
  const found = await database.pool.query<{ day: string; shown: object }>(
    `SELECT to_char(day, 'YYYY-MM-DD') AS day, shown FROM hoster_trust_day WHERE hoster_id = $1 ORDER BY hoster_trust_day.day`,
    [hosterId],
  )
  return found.rows
}

test('an audit changes nothing that its hoster or the public sees until its day has ended and 24 hours have passed', async () => {
  const { hosterId, endpointId } = await createHoster(database)
  await writeDays(NOW_MS - 3 * DAY_MS)
  const before = await showAll(hosterId, NOW_MS)
  expect(before.itself).toMatchObject({ as_of_day: '2026-11-22', audits: 0, last_audits: [] })

  const [customerId] = await createCustomers(database, 1)
  await insertUsage(database, { customerId: customerId!, hosterId, endpointId, count: 30 })
  for (let count = 0; count < 6; count++) await audit(hosterId, NOW_MS - count * 60_000, count !== 3)
  await score(NOW_MS)
  // The operator sees it at once, with its time.
  const live = await deskAt(NOW_MS).showLive(hosterId)
  expect(live).toMatchObject({ audits: 6, requests: 30 })
  expect(live.last_audits[0]).toMatchObject({ at: new Date(NOW_MS - 300_000).toISOString(), statistic: 0.512345 })
  expect(live.score).toBeGreaterThan(0)

  await writeDays(NOW_MS + 2 * HOUR_MS)
  await writeDays(MIDNIGHT_MS - 60_000)
  await writeDays(MIDNIGHT_MS + 60_000)
  for (const nowMs of [NOW_MS, NOW_MS + HOUR_MS, MIDNIGHT_MS - 1, MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS - 1])
    expect(await showAll(hosterId, nowMs), new Date(nowMs).toISOString()).toEqual(before)

  const { everybody, itself, score: shown, listed } = await showAll(hosterId, MIDNIGHT_MS + DAY_MS)
  expect(itself).toMatchObject({ as_of_day: '2026-11-25', audits: 6, requests: 30 })
  expect(itself.signals).toContainEqual(expect.objectContaining({ signal: 'sampling', passed: 5, failed: 1 }))
  expect(itself.tests).toContainEqual(expect.objectContaining({ signal: 'sampling', audits: 6 }))
  const passed = { kind: 'sampling', model: 'm', passed: true, statistic: 0.512, sample: 16, day: '2026-11-25' }
  // In an order that says nothing about when each was.
  const audits = [{ ...passed, passed: false, statistic: 0.00123 }, ...Array.from({ length: 5 }, () => passed)]
  expect(itself.last_audits).toEqual(audits)
  expect(everybody.last_audits).toEqual(audits)
  expect(shown).toBe(Math.round(live.score * 100) / 100)
  expect([everybody.score, itself.score, everybody.earned_score]).toEqual([shown, shown, shown])
  expect(listed).toMatchObject([{ trust_score: shown }])
  const { offers } = await readHosterOffers(database.pool, {
    ...{ masterKeys: fixedKey(randomBytes(32)), allowPrivateHosters: false, onProblem: () => {} },
    nowMs: MIDNIGHT_MS + DAY_MS,
  })
  const { endpoint } = offers.find(offer => offer.endpoint.hosterId === hosterId)!
  expect(endpoint).toMatchObject({ trustScore: live.score, shownTrust: shown })
})

test('no answer about trust has a time of day, and no figure is exact enough to be computed from a log', async () => {
  const { hosterId, endpointId } = await createHoster(database)
  const [customerId] = await createCustomers(database, 1)
  await insertUsage(database, { customerId: customerId!, hosterId, endpointId, count: 7, costNanos: 123_457 })
  for (let count = 0; count < 15; count++) await audit(hosterId, NOW_MS - count * 60_000)
  await score(NOW_MS)
  await writeDays(NOW_MS)
  const { everybody, itself } = await showAll(hosterId, NOW_MS + 2 * DAY_MS)
  expect(everybody.last_audits).toHaveLength(10)
  expect(itself.last_audits).toHaveLength(15)
  // The limits of the tests are constants.
  for (const text of [everybody, itself].map(page => JSON.stringify(page).replaceAll('0.000001', ''))) {
    expect(text).not.toMatch(/\d\d:\d\d|1795\d{9}|\d\.\d{5}/)
    expect(text.match(/\d{4}-\d\d-\d\d/g)?.every(day => day === '2026-11-25')).toBe(true)
  }
  for (const { sample } of itself.components) expect(Number.isInteger(sample)).toBe(true)
})

test('the job writes one row a day for each hoster, audited or not, however often and on however many nodes it runs', async () => {
  const { hosterId } = await createHoster(database)
  const audited = await createHoster(database)
  await audit(audited.hosterId, NOW_MS)
  await Promise.all([writeDays(NOW_MS), writeDays(NOW_MS)])
  await writeDays(NOW_MS)
  for (const id of [hosterId, audited.hosterId]) expect(await rows(id)).toMatchObject([{ day: '2026-11-25' }])
  const [first] = await rows(audited.hosterId)
  // The last run of a day stands; a run on the next day does not touch it.
  await audit(audited.hosterId, NOW_MS + HOUR_MS)
  await writeDays(MIDNIGHT_MS - 1)
  const [last] = await rows(audited.hosterId)
  expect(last).not.toEqual(first)
  await audit(audited.hosterId, MIDNIGHT_MS)
  await writeDays(MIDNIGHT_MS)
  expect(await rows(audited.hosterId)).toMatchObject([last, { day: '2026-11-26' }])
  expect(await deskAt(NOW_MS + 2 * DAY_MS).showOwn(hosterId)).toMatchObject({
    ...{ as_of_day: '2026-11-25', score: 0, audits: 0, last_audits: [] },
  })
})

test('a run that midnight interrupts leaves the ended day as it was', async () => {
  const { hosterId } = await createHoster(database)
  await writeDays(NOW_MS)
  const before = await rows(hosterId)
  await audit(hosterId, MIDNIGHT_MS)
  let reads = 0
  // The clock of the run: before midnight when it begins to read, after it when it has read.
  const epochMs = () => (reads++ === 0 ? MIDNIGHT_MS - 1 : MIDNIGHT_MS + 1)
  await writeTrustDays({ pool: database.pool, clock: { epochMs, monotonicMs: epochMs } })
  expect(await rows(hosterId)).toEqual(before)
})

test('each new day of the rows renews the catalogs, so that quotes and receipts show the next day', async () => {
  await createHoster(database)
  const version = async () => {
    const { rows } = await database.pool.query<{ version: bigint }>(
      `SELECT version FROM control_version WHERE topic = 'supply'`,
    )
    return rows[0]!.version
  }
  await writeDays(NOW_MS)
  const before = await version()
  await writeDays(NOW_MS + HOUR_MS)
  expect(await version()).toBe(before)
  await writeDays(MIDNIGHT_MS)
  expect(await version()).toBe(before + 1n)
})

test('rows are kept for 90 days', async () => {
  const { hosterId } = await createHoster(database)
  await writeDays(NOW_MS)
  await writeDays(NOW_MS + 90 * DAY_MS)
  expect(await rows(hosterId)).toMatchObject([{ day: '2026-11-25' }, { day: '2027-02-23' }])
  await writeDays(NOW_MS + 91 * DAY_MS)
  expect(await rows(hosterId)).toMatchObject([{ day: '2027-02-23' }, { day: '2027-02-24' }])
})

test('before the first day that may be shown, all lists are empty and the score is 0', async () => {
  const { hosterId } = await createHoster(database)
  await audit(hosterId, NOW_MS)
  await score(NOW_MS)
  const { everybody, itself, score: shown, listed } = await showAll(hosterId, NOW_MS)
  for (const page of [everybody, itself])
    expect(page).toMatchObject({
      ...{ as_of_day: null, score: 0, earned_score: 0, is_trusted: false, requests: 0, audits: 0, last_audits: [] },
      components: [{ sample: 0 }, { sample: 0 }, { sample: 0 }],
      gates: [{ has: 0 }, { has: 0 }, { has: 0 }, { has: 0 }],
    })
  expect(shown).toBe(0)
  expect(listed).toMatchObject([{ trust_score: 0 }])
})

test('a quarantine and a score of the operator are shown at once', async () => {
  const { hosterId } = await createHoster(database)
  await setTrustScore(database.pool, hosterId, 0.85)
  expect(await showAll(hosterId, NOW_MS)).toMatchObject({
    everybody: { score: 0.85, is_trusted: true, is_set_by_operator: true, earned_score: 0 },
    score: 0.85,
  })
  await transaction(database.pool, sql =>
    quarantineHoster(sql, hosterId, ['canary'], { canary: { started: [], seen: 9, p: 1e-7 } }),
  )
  expect(await showAll(hosterId, NOW_MS)).toMatchObject({
    everybody: { score: 0, is_quarantined: true, state: 'suspended' },
    itself: { score: 0, is_quarantined: true, quarantine_reason: expect.stringContaining('it fails prompts') },
    score: 0,
  })
})

test('at the upgrade, what every hoster had seen already stays visible, and later audits come late', async () => {
  await database.pool.query(`DELETE FROM installation WHERE name = 'trust_days_since'`)
  const { hosterId } = await createHoster(database)
  await audit(hosterId, NOW_MS - HOUR_MS)
  // Two nodes start.
  const start = (nowMs: number) => writeFirstTrustDays({ pool: database.pool, clock: at(nowMs) })
  await Promise.all([start(NOW_MS), start(NOW_MS)])
  const upgraded = await showAll(hosterId, NOW_MS)
  expect(upgraded.itself).toMatchObject({
    ...{ as_of_day: '2026-11-23', audits: 1, last_audits: [{ passed: true, day: '2026-11-25' }] },
  })
  await audit(hosterId, NOW_MS + HOUR_MS, false)
  await start(NOW_MS + 90 * 60_000)
  await writeDays(NOW_MS + 2 * HOUR_MS)
  expect(await showAll(hosterId, MIDNIGHT_MS + DAY_MS - 1)).toEqual(upgraded)
  expect((await deskAt(MIDNIGHT_MS + DAY_MS).showOwn(hosterId)).audits).toBe(2)
})
