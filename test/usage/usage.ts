import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import type { Caller } from '../../src/base/domain/caller.ts'
import { costNanos, splitCost } from '../../src/base/domain/money.ts'
import type { Settlement } from '../../src/money/ledger/settlement/settlement.ts'

const HOSTERS = ['6c1bbd3c-8f56-4e4b-9c6f-0d6b8b6c2a01', '6c1bbd3c-8f56-4e4b-9c6f-0d6b8b6c2a02']

/** A random request: its time, outcome and usage. Prices include odd ones, so that costs and shares round. */
export interface Use {
  readonly agoMs: number
  readonly modelId: string
  readonly provider: Settlement['provider']
  readonly hoster: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly inputPicoPerToken: bigint
  readonly outputPicoPerToken: bigint
  readonly latencyMs: number
  readonly isSuccess: boolean
}

/** A request that a hoster served. */
export const hosterUse: Use = {
  agoMs: 0,
  modelId: 'meta/llama-3',
  provider: 'hoster',
  hoster: 0,
  inputTokens: 31,
  outputTokens: 154,
  inputPicoPerToken: 50_000n,
  outputPicoPerToken: 100_001n,
  latencyMs: 398,
  isSuccess: true,
}

/** Generates requests within the last `spanMs`, by default slightly more than the longest period. */
export function arbitraryUse(spanMs = 367 * 86_400_000): fc.Arbitrary<Use> {
  return fc.record({
    agoMs: fc.oneof(fc.integer({ min: 0, max: spanMs }), fc.integer({ min: 0, max: Math.min(spanMs, 3 * 86_400_000) })),
    modelId: fc.constantFrom('llama-3.3-70b', 'meta/llama-3', 'demo'),
    provider: fc.constantFrom('local', 'hoster', 'hoster', 'cloud', 'none'),
    hoster: fc.nat(HOSTERS.length - 1),
    inputTokens: fc.nat(200_000),
    outputTokens: fc.nat(20_000),
    inputPicoPerToken: fc.bigInt({ min: 0n, max: 15_000_001n }),
    outputPicoPerToken: fc.bigInt({ min: 0n, max: 75_000_001n }),
    latencyMs: fc.nat(600_000),
    isSuccess: fc.boolean(),
  })
}

/** Builds the settlement of a request of `caller` that began `use.agoMs` before `nowMs`. */
export function settlementOf(caller: Caller, nowMs: number, use: Use): Settlement {
  const startedAtEpochMs = nowMs - use.agoMs
  const requestId = uuidv7(startedAtEpochMs)
  const served = use.provider !== 'none'
  const price = { inputPicoPerToken: use.inputPicoPerToken, outputPicoPerToken: use.outputPicoPerToken }
  const inputTokens = served ? use.inputTokens : 0
  const outputTokens = served ? use.outputTokens : 0
  const cost = costNanos(price, inputTokens, outputTokens)
  const split = splitCost(cost, use.provider === 'hoster' ? 8_333 : 0)
  return {
    requestId,
    leaseId: requestId,
    customerId: caller.customerId,
    keyId: caller.keyId,
    label: null,
    startedAtEpochMs,
    modelId: use.modelId,
    provider: use.provider,
    endpointId: served ? 'somewhere' : null,
    hosterId: use.provider === 'hoster' ? HOSTERS[use.hoster]! : null,
    inputTokens,
    outputTokens,
    reportedInputTokens: null,
    reportedOutputTokens: null,
    countedInputTokens: null,
    countedOutputTokens: null,
    usageSource: served ? 'gateway' : 'none',
    price,
    parts: null,
    reasoningTokens: null,
    priceVersion: null,
    priceGroup: null,
    upstreamCostNanos: null,
    holdNanos: cost,
    costNanos: cost,
    ...split,
    writeoffNanos: 0n,
    latencyMs: use.latencyMs,
    firstTokenMs: null,
    success: served && use.isSuccess,
    outcome: served ? 'served' : 'unserved',
    finishReason: null,
    attempts: [],
    routing: null,
  }
}

/** Creates a UUIDv7 for any time: node:crypto creates them only for the current time. */
function uuidv7(epochMs: number): string {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(epochMs, 0, 6)
  bytes[6] = 0x70 | (bytes[6]! & 0x0f)
  bytes[8] = 0x80 | (bytes[8]! & 0x3f)
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
