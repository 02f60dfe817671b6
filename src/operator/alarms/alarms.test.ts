import { expect, test } from 'vitest'
import type { Offer } from '../../base/domain/offer.ts'
import type { ShownServer } from '../../wire/api/operator/overview.ts'
import type { Schedule } from '../scheduled-run.ts'
import { type AlarmFacts, alarmsOf } from './alarms.ts'

const NOW_MS = Date.UTC(2026, 10, 29)
const DAY_MS = 86_400_000
const GB = 1_000_000_000
const server = (more: Partial<ShownServer>): ShownServer => ({
  endpoint_id: 'gpu-1',
  name: 'gpu-1',
  provider: 'local',
  model: 'm',
  state: 'working',
  in_flight: 0,
  first_token_p50_ms: null,
  attempts_today: 34,
  answered_today: 0,
  failed_today: 34,
  busy_today: 0,
  ok_share: 0,
  recent_attempts: 34,
  recent_failed: 34,
  customers_kept_away: 0,
  attempted_at: null,
  last_error: null,
  ...more,
})
const calm: AlarmFacts = {
  audit: { atEpochMs: NOW_MS, elapsedMs: 1, violations: 0 },
  summedAt: new Date(NOW_MS).toISOString(),
  offers: [],
  servers: [server({})],
  failedJobs: [],
  lateJob: undefined,
  waitingGrants: 0,
  waitingModels: [],
  differences: 0,
  promotion: { waitingReviews: 0, yesterdayNanos: 0n } as AlarmFacts['promotion'],
  nodes: [],
  suspendedHosters: [],
  disks: [],
  createdMs: NOW_MS - DAY_MS,
  backups: { lastMs: null, stored: null, failure: null, test: null },
  scheduledRuns: [],
  silentProviders: [],
  rotation: null,
  rules: {
    promotionDayNanos: 1n,
    backupHours: 168,
    schedules: ['usage_archive', 'usage_export'],
    providers: [],
  },
  nowMs: NOW_MS,
}
const rules = (more: Partial<AlarmFacts['rules']>): Partial<AlarmFacts> => ({ rules: { ...calm.rules, ...more } })
const backups = (more: Partial<AlarmFacts['backups']>): Partial<AlarmFacts> => ({
  backups: { ...calm.backups, ...more },
})
const lastRun = (schedule: Schedule, problem: string | null): Partial<AlarmFacts> => ({
  scheduledRuns: [{ schedule, run: { atMs: NOW_MS, problem } }],
})
const disk = (free: number, size: number) => ({
  host: 'a',
  what: 'data' as const,
  freeBytes: free * GB,
  sizeBytes: size * GB,
})
const offer = (price: [bigint, bigint], cost?: [bigint, bigint]) =>
  ({
    offerId: 'openai/m',
    modelId: 'm',
    endpoint: { name: 'openai' },
    price: { inputPicoPerToken: price[0], outputPicoPerToken: price[1] },
    ...(cost && { cost: { inputPicoPerToken: cost[0], outputPicoPerToken: cost[1] } }),
  }) as Offer

const limited = { endpointId: 'openai', name: 'openai', monthlyBudgetNanos: 1n } as Offer['endpoint']

/** The alarms of these facts by severity and key. */
const keys = (more: Partial<AlarmFacts>) =>
  alarmsOf({ ...calm, ...more }).map(({ severity, key }) => `${severity} ${key}`)

test.each<[string, Partial<AlarmFacts>, string[]]>([
  ['nothing', {}, []],
  ['the only server of a model', { servers: [server({ state: 'failing' })] }, ['danger server_failing gpu-1/m']],
  [
    'one of two servers',
    { servers: [server({ state: 'failing' }), server({ endpoint_id: 'gpu-2' })] },
    ['warn server_failing gpu-1/m'],
  ],
  [
    'both servers, one of them ejected',
    { servers: [server({ state: 'failing' }), server({ endpoint_id: 'gpu-2', state: 'ejected' })] },
    ['danger server_failing gpu-1/m', 'danger server_ejected gpu-2/m'],
  ],
  ['a degraded server', { servers: [server({ state: 'degraded' })] }, []],
  ['no server', { servers: [] }, ['danger no_servers']],
  [
    'a suspended hoster',
    { suspendedHosters: [{ id: 'h', name: 'garage', sinceMs: NOW_MS }] },
    ['warn hoster_suspended h'],
  ],
  ['half a disk', { disks: [disk(10, 20)] }, []],
  ['a small disk with less than a tenth', { disks: [disk(1.9, 20)] }, ['warn disk_low a data']],
  ['a large disk with little', { disks: [disk(4.9, 4_000)] }, ['warn disk_low a data']],
  ['a large disk with a hundredth', { disks: [disk(40, 4_000)] }, []],
  ['a disk with next to nothing', { disks: [disk(0.5, 20)] }, ['danger disk_low a data']],
  ['a new installation without a backup', {}, []],
  ['an old one without a backup', { createdMs: NOW_MS - 8 * DAY_MS }, ['warn backup_old']],
  ['a backup of this week', { createdMs: 0, ...backups({ lastMs: NOW_MS - 6 * DAY_MS }) }, []],
  ['a backup of last week', { createdMs: 0, ...backups({ lastMs: NOW_MS - 8 * DAY_MS }) }, ['warn backup_old']],
  [
    'a scheduled backup failed',
    backups({ lastMs: NOW_MS - DAY_MS, failure: { atMs: NOW_MS - 1, reason: 'The disk is full.' } }),
    ['warn backup_failed'],
  ],
  [
    'the next one worked',
    backups({ lastMs: NOW_MS - 1, failure: { atMs: NOW_MS - DAY_MS, reason: 'The disk is full.' } }),
    [],
  ],
  [
    'a backup could not be restored',
    backups({ lastMs: NOW_MS, test: { name: 'b', atMs: NOW_MS, elapsedMs: 1, problem: 'It is damaged.' } }),
    ['danger restore_test_failed'],
  ],
  ['an archive that failed', lastRun('usage_archive', 'It is full.'), ['warn usage_archive_failed']],
  ['an export that failed', lastRun('usage_export', 'It is full.'), ['warn usage_export_failed']],
  ['an archive', lastRun('usage_archive', null), []],
  [
    'an archive that failed before its schedule ended',
    { ...lastRun('usage_archive', 'It is full.'), ...rules({ schedules: ['usage_export'] }) },
    [],
  ],
  ['backups by other means', { createdMs: 0, ...rules({ backupHours: 0 }) }, []],
  ['a price above cost', { offers: [offer([2n, 2n], [1n, 2n])] }, []],
  ['a price without a known cost', { offers: [offer([2n, 2n])] }, []],
  ['a price below cost', { offers: [offer([2n, 2n], [1n, 3n])] }, ['warn price_below_cost openai/m']],
  ['a budget that is left', { offers: [{ ...offer([2n, 2n]), endpoint: limited }] }, []],
  [
    'a spent budget, and no other server',
    { offers: [{ ...offer([2n, 2n]), endpoint: limited, isBudgetSpent: true }] },
    ['danger budget_spent openai'],
  ],
  [
    'a spent budget, and another server',
    { offers: [{ ...offer([2n, 2n]), endpoint: limited, isBudgetSpent: true }, offer([2n, 2n])] },
    ['warn budget_spent openai'],
  ],
  ['no webhook', rules({ providers: [{ name: 'stripe', hasWebhook: false }] }), ['warn webhook_missing stripe']],
  ['a webhook', rules({ providers: [{ name: 'stripe', hasWebhook: true }] }), []],
  [
    'a webhook that nothing arrives at',
    { silentProviders: ['stripe'], ...rules({ providers: [{ name: 'stripe', hasWebhook: true }] }) },
    ['warn webhook_missing stripe'],
  ],
  [
    'an audit that is late',
    { audit: { atEpochMs: NOW_MS - DAY_MS, elapsedMs: 1, violations: 0 } },
    ['warn audit_missing'],
  ],
  ['a rotation that has just begun', { rotation: { step: 'hand_out', sinceMs: NOW_MS - 1 } }, []],
  ['a rotation that waits for nodes', { rotation: { step: 'hand_out', sinceMs: 0 } }, ['warn rotation_unfinished']],
  ['values of a former master key', { rotation: { step: 'seal_again', sinceMs: 0 } }, ['warn rotation_unfinished']],
  ['a late job', { lateJob: { task: 't', sinceMs: 0, lateS: 300 } }, ['danger jobs_late']],
  [
    'the worst first',
    { failedJobs: ['t'], lateJob: { task: 't', sinceMs: 0, lateS: 300 } },
    ['danger jobs_late', 'warn job_failed t'],
  ],
])('alarms of %s', (_, facts, expected) => {
  expect(keys(facts)).toEqual(expected)
})

test('every alarm says what to do', () => {
  const facts: Partial<AlarmFacts> = {
    servers: [server({ state: 'failing', last_error: { text: '500: out of memory' } as ShownServer['last_error'] })],
    differences: 1,
    waitingGrants: 1,
    createdMs: 0,
  }
  const alarms = alarmsOf({ ...calm, ...facts })
  expect(alarms).toHaveLength(4)
  for (const { todo, link } of alarms)
    expect([todo, link]).toEqual([expect.stringMatching(/\.|:/), expect.stringMatching(/^\/operator/)])
  expect(alarms.find(({ kind }) => kind === 'server_failing')).toMatchObject({
    message: 'gpu-1 fails for m: 34 of the last 34 attempts failed.',
    todo: 'No other server of m works. Check the server and its key. Last error: 500: out of memory.',
    link: '/operator/models?model=m',
  })
})
