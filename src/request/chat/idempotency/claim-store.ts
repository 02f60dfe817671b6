import type { Nanos } from '../../../base/domain/money.ts'

/** A request with an Idempotency-Key that is about to run. */
export interface Claim {
  readonly customerId: string
  readonly keyId: string
  /** The Idempotency-Key. */
  readonly key: string
  /** SHA-256 of the path and the body of the request. */
  readonly bodyHash: Buffer
  readonly requestId: string
  readonly modelId: string
}

/**
 * The table of Idempotency-Keys: in PostgreSQL (postgres-claim-store.ts) or, for the simulator, in memory.
 * Each call is one transaction; a call that rejects may or may not have been committed. Writes change only the
 * entry of the claim's request. Once another request has taken over the key, they do nothing.
 */
export interface ClaimStore {
  /** Claims a key that is unused or expired. Returns false when the key is in use. */
  take(claim: Claim, nodeId: string): Promise<boolean>
  /** Returns the entry of a key; undefined when there is none. */
  find(claim: Claim): Promise<StoredClaim | undefined>
  /**
   * Transfers the key from an earlier request to this one. Returns false when the earlier request no longer
   * has it.
   */
  takeOver(claim: Claim, earlierRequestId: string, nodeId: string): Promise<boolean>
  finish(claim: Claim, ending: { readonly costNanos: Nanos; readonly answerSealed: Buffer | null }): Promise<void>
  release(claim: Claim): Promise<void>
}

export interface StoredClaim {
  readonly requestId: string
  /** The node that runs, or ran, the request. */
  readonly nodeId: string
  readonly isSameBody: boolean
  /** Null until the request has finished. */
  readonly done: { readonly costNanos: Nanos; readonly answerSealed: Buffer | null } | null
  /**
   * Whether the request may still be running: its node is not declared dead and has not sent so many heartbeats since
   * the claim that the longest answer would have ended, and the usage row, if any, was written only seconds ago.
   */
  readonly isRunning: boolean
  /** The usage row of the request; null when there is none. */
  readonly row: { readonly outcome: string; readonly success: boolean; readonly costNanos: Nanos } | null
}
