import { randomUUID, randomUUIDv7 } from 'node:crypto'
import type { Admission } from '../src/money/ledger/leases/admission.ts'
import type { Settlement } from '../src/money/ledger/settlement/settlement.ts'

/** The hold of a sample request. */
export const HOLD_NANOS = 1_000_000n
/** No benchmark reaches them. */
export const sampleLimits = {
  requestsPerMinute: 2e9,
  requestsPerDay: 2e9,
  dailySpendCapNanos: 9_000_000_000_000_000n,
}
const HOSTER_ID = randomUUID()

/** A request with a lease of its own. */
export function sampleAdmission({ customerId, keyId }: Pick<Admission, 'customerId' | 'keyId'>): Admission {
  return {
    requestId: randomUUIDv7(),
    customerId,
    keyId,
    modelId: 'llama-3.3-70b',
    limits: sampleLimits,
    keyLimit: null,
    memberLimit: null,
    ask: { wantNanos: HOLD_NANOS, floorNanos: HOLD_NANOS },
  }
}

/** A small answer of a hoster, as most are: without cached tokens, label and routing note. */
export function sampleSettlement(admission: Admission, leaseId: string): Settlement {
  return {
    ...admission,
    leaseId,
    label: null,
    startedAtEpochMs: Date.now(),
    provider: 'hoster',
    endpointId: 'a-server',
    hosterId: HOSTER_ID,
    inputTokens: 100,
    outputTokens: 50,
    reportedInputTokens: 100,
    reportedOutputTokens: 50,
    countedInputTokens: null,
    countedOutputTokens: null,
    usageSource: 'upstream',
    price: { inputPicoPerToken: 150_000n, outputPicoPerToken: 600_000n },
    parts: null,
    reasoningTokens: null,
    priceVersion: null,
    priceGroup: null,
    upstreamCostNanos: null,
    holdNanos: HOLD_NANOS,
    costNanos: 45_000n,
    hosterShareNanos: 36_000n,
    feeNanos: 9_000n,
    writeoffNanos: 0n,
    latencyMs: 123,
    firstTokenMs: 12,
    success: true,
    outcome: 'served',
    finishReason: 'stop',
    attempts: [
      {
        offerId: 'a-server/llama-3.3-70b',
        endpointId: 'a-server',
        provider: 'hoster',
        outcome: 'answered',
        elapsedMs: 12,
      },
    ],
    routing: null,
  }
}
