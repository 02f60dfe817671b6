import type { Nanos } from '../../domain/money.ts'

/** A request with an Idempotency-Key that wants to run. */
export interface Claim {
  readonly customerId: string
  readonly keyId: string
  /** The Idempotency-Key. */
  readonly key: string
  /** SHA-256 of the body. */
  readonly bodyHash: Buffer
  readonly requestId: string
  readonly modelId: string
}

/**
 * The table of Idempotency-Keys. PostgreSQL has it in production (postgres-claim-store.ts); the simulator has it in memory. Each call is one
 * transaction, and one that rejects may have happened or not. What is written belongs to the request of the claim: once another one has
 * the key, nothing happens.
 */
export interface ClaimStore {
  /** Takes a key that stands for nothing, or for something of yesterday. False when it stands for something. */
  take(claim: Claim, nodeId: string): Promise<boolean>
  /** What the key stands for; undefined for nothing. */
  find(claim: Claim): Promise<StoredClaim | undefined>
  /** Hands the key of an earlier request over to this one. False when that one has it no more. */
  takeOver(claim: Claim, earlierRequestId: string, nodeId: string): Promise<boolean>
  finish(claim: Claim, ending: { readonly costNanos: Nanos; readonly answerSealed: Buffer | null }): Promise<void>
  release(claim: Claim): Promise<void>
}

export interface StoredClaim {
  readonly requestId: string
  readonly isSameBody: boolean
  /** Null until it is finished. */
  readonly done: { readonly costNanos: Nanos; readonly answerSealed: Buffer | null } | null
  /** Its node lives and did not forget it, and its usage row, if there is one, is too young to say that nobody finishes it. */
  readonly isRunning: boolean
  /** Its usage row. */
  readonly row: { readonly outcome: string; readonly success: boolean; readonly costNanos: Nanos } | null
}
