import { expect, test } from 'vitest'
import type { Settlement } from '../../src/money/ledger/settlement/settlement.ts'
import { createOverReports } from '../../src/request/settle/log-anomalies.ts'

const honest = {
  hosterId: '00000000-0000-4000-8000-00000000000a',
  requestId: '00000000-0000-7000-8000-000000000001',
  modelId: 'm',
  usageSource: 'upstream',
  inputTokens: 10,
  outputTokens: 5,
  reportedInputTokens: 10,
  reportedOutputTokens: 5,
} as Settlement
const lying: Settlement = { ...honest, usageSource: 'gateway', reportedOutputTokens: 5_000 }

test('each over-report is counted, and logged once a minute for each hoster', () => {
  let nowMs = 0
  let counted = 0
  const lines: object[] = []
  const notice = createOverReports({
    clock: { epochMs: () => 0, monotonicMs: () => nowMs },
    onOverReport: () => counted++,
    log: { warn: facts => lines.push(facts) },
  })
  const other = '00000000-0000-4000-8000-00000000000b'
  for (const settlement of [lying, lying, { ...lying, hosterId: other }]) notice(settlement)
  nowMs = 60_000
  notice({ ...lying, reportedOutputTokens: 5, reportedInputTokens: 999 })
  expect(counted).toBe(4)
  expect(lines.map(line => (line as Settlement).hosterId)).toEqual([lying.hosterId, other, lying.hosterId])
  expect(lines[0]).toMatchObject({ requestId: lying.requestId, reportedOutputTokens: 5_000, outputTokens: 5 })
})

test.each<[string, Partial<Settlement>]>([
  ['a correct report', honest],
  ['no report', { usageSource: 'gateway', reportedInputTokens: null, reportedOutputTokens: null }],
  ['a whole answer whose client left when it arrived', { ...lying, outcome: 'client_gone', outputTokens: 0 }],
  ['a report of a local server, which the operator trusts', { ...lying, hosterId: null }],
])('%s is not an over-report', (_name, fields) => {
  let counted = 0
  const notice = createOverReports({
    clock: { epochMs: () => 0, monotonicMs: () => 0 },
    onOverReport: () => counted++,
    log: { warn: () => {} },
  })
  notice({ ...honest, ...fields })
  expect(counted).toBe(0)
})
