import { randomUUIDv7 } from 'node:crypto'
import { lowestUuidAt } from '../../src/base/runtime/uuid.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { addUsagePartitions } from '../../src/money/ledger/settlement/add-usage-partitions.ts'
import {
  admissionOf,
  createLedgerWorld,
  type LedgerWorld,
  nanoPerToken,
  settle,
  settlementOf,
  type TestNode,
} from './ledger-world.ts'

export const JANUARY_MS = Date.UTC(2026, 0, 15, 10, 30)
export const FEBRUARY_MS = Date.UTC(2026, 1, 1, 0, 0, 1)

/** A ledger with requests in January and February 2026: paid, free, of a key with a limit, and one refunded later. */
export interface ArchiveWorld extends LedgerWorld {
  readonly customerId: string
  /** Requests of January that were charged 101 nano-USD each. The key of the first has a spend limit. */
  readonly january: readonly string[]
  /** Serves a request whose id and start are of this time. Returns its id. */
  serve(atMs: number, chargeNanos: bigint, more?: { customerId?: string }): Promise<string>
}

export async function createArchiveWorld(): Promise<ArchiveWorld> {
  const world = await createLedgerWorld()
  await addUsagePartitions(world.pool, JANUARY_MS)
  let nowMs = JANUARY_MS
  const node = await world.addNode({ windowClock: () => nowMs })
  const customerId = await world.addCustomer(1_000_000n)
  const keyLimit = { limitNanos: 50_000n, reset: 'monthly' } as const
  const { keyId } = await issueKey(world.pool, { customerId, name: 'limited', limit: keyLimit })
  const serve: ArchiveWorld['serve'] = (atMs, chargeNanos, more = {}) => {
    nowMs = atMs
    return serveAt(node, atMs, chargeNanos, { customerId, ...more })
  }
  const january = [
    await serveAt(node, JANUARY_MS, 101n, { customerId, keyId, keyLimit }),
    await serve(JANUARY_MS, 101n),
  ]
  await serve(JANUARY_MS + 86_400_000, 0n)
  // Together, so that one transaction charges both.
  await Promise.all([serveAt(node, FEBRUARY_MS - 2_000, 70n, { customerId }), serve(FEBRUARY_MS, 30n)])
  await serve(FEBRUARY_MS, 500n, { customerId: await world.addCustomer(1_000n) })
  return { ...world, customerId, january, serve }
}

async function serveAt(
  { ledger }: TestNode,
  atMs: number,
  chargeNanos: bigint,
  { customerId, ...key }: { customerId: string } & Partial<Parameters<typeof admissionOf>[2]>,
): Promise<string> {
  const admission = admissionOf(customerId, 1_000n, { ...key, requestId: uuidAt(atMs) })
  await ledger.admit(admission)
  // At the price of the input, so that the cost is the same.
  const picoPerToken = nanoPerToken.inputPicoPerToken
  const parts = [
    { kind: 'cache_read', tokens: Number(chargeNanos) - 10, picoPerToken } as const,
    { kind: 'input_audio', tokens: 5, picoPerToken } as const,
  ]
  const isPaid = chargeNanos > 0n
  await settle(
    ledger,
    settlementOf(admission, 1_000n, chargeNanos, {
      ...{ startedAtEpochMs: atMs, success: isPaid, parts: isPaid ? parts : null },
    }),
  )
  return admission.requestId
}

/** A UUIDv7 of this time. */
export function uuidAt(epochMs: number): string {
  return lowestUuidAt(epochMs).slice(0, 14) + randomUUIDv7().slice(14)
}
