import { expect, test } from 'vitest'
import {
  currentRecord,
  decodeSettlement,
  decodeSettlements,
  encodeSettlement,
  encodeSettlements,
  RECORD_SEPARATOR,
  type Settlement,
} from './settlement.ts'

const settlement: Settlement = {
  requestId: '019a0000-0000-7000-8000-000000000001',
  leaseId: '019a0000-0000-7000-8000-000000000002',
  customerId: '019a0000-0000-7000-8000-000000000003',
  keyId: '019a0000-0000-7000-8000-000000000004',
  label: 'project/a:1',
  startedAtEpochMs: 1_790_000_000_123,
  modelId: 'modèle "7b"\\',
  provider: 'hoster',
  endpointId: 'somewhere',
  hosterId: null,
  inputTokens: 1,
  outputTokens: 2,
  reportedInputTokens: 3,
  reportedOutputTokens: null,
  countedInputTokens: null,
  countedOutputTokens: 4,
  usageSource: 'upstream',
  price: { inputPicoPerToken: 9_007_199_254_740_993n, outputPicoPerToken: 0n },
  parts: [
    { kind: 'cache_read', tokens: 5, picoPerToken: 9_007_199_254_740_993n },
    { kind: 'cache_write', tokens: 6, picoPerToken: 0n },
    { kind: 'output_audio', tokens: 7, picoPerToken: 8n },
    { kind: 'request', tokens: 1, picoPerToken: 9_000_000_000n },
  ],
  reasoningTokens: 2,
  priceVersion: 7,
  priceGroup: { name: 'friends', version: 3 },
  upstreamCostNanos: 123n,
  holdNanos: 9_223_372_036_854_775_807n,
  costNanos: 9_007_199_254_740_993n,
  hosterShareNanos: 1n,
  feeNanos: 2n,
  writeoffNanos: 0n,
  latencyMs: 12,
  firstTokenMs: null,
  success: true,
  outcome: 'served',
  finishReason: 'stop',
  attempts: [{ offerId: 'a/b', endpointId: 'a', provider: 'hoster', outcome: 'answered', elapsedMs: 3 }],
  routing: null,
}

test('a settlement decodes to what was encoded, money to the last digit', () => {
  expect(decodeSettlement(encodeSettlement(settlement))).toEqual(settlement)
  expect(decodeSettlements(encodeSettlements([settlement, settlement]))).toEqual([settlement, settlement])
})

test('texts decode to what was encoded, except separators, and an empty text is not NULL', () => {
  const odd: Settlement = {
    ...settlement,
    modelId: '(a,"b")\\,\'\u2028',
    endpointId: '',
    finishReason: 'two\nlines\x1e',
    routing: { model: 'x\n"y"\\', constraints: {}, ranked: [], excluded: [] },
  }
  expect(encodeSettlement(odd)).not.toContain(RECORD_SEPARATOR)
  expect(decodeSettlement(encodeSettlement(odd))).toEqual({ ...odd, finishReason: 'two\nlines\ufffd' })
})

test('characters that PostgreSQL rejects are replaced, so that the charge is not lost', () => {
  const odd = { ...settlement, modelId: 'a\0b\ud800c\\u0000', finishReason: '\udfff' }
  expect(decodeSettlement(encodeSettlement(odd))).toMatchObject({
    modelId: 'a\ufffdb\ufffdc\\u0000',
    finishReason: '\ufffd',
  })
})

const withoutGroup = { priceGroup: null, upstreamCostNanos: null }

test('a record of an earlier version is read, without the fields that came later', () => {
  const early = { ...settlement, label: null, parts: null, reasoningTokens: null, ...withoutGroup }
  const current = encodeSettlement(early)
  expect(current).toMatch(/,{10}\)$/)
  expect(decodeSettlement(currentRecord(`(5${current.slice(2, -11)})`))).toEqual(early)
  const unlabelled = { ...settlement, label: null, ...withoutGroup }
  expect(decodeSettlement(currentRecord(`(6${encodeSettlement(unlabelled).slice(2, -5)})`))).toEqual(unlabelled)
  const listed = { ...settlement, ...withoutGroup }
  expect(decodeSettlement(currentRecord(`(7${encodeSettlement(listed).slice(2, -4)})`))).toEqual(listed)
})

test('a record of another version is refused with instructions', () => {
  for (const record of ['{"v":3}', '(3,x)', '(60,x)', '6,x', '(5,x)', '(6,x)', '(7,x)', '(8,x)', '()', '']) {
    expect(() => decodeSettlement(record)).toThrow('Start that version again')
  }
})
