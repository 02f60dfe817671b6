import { createHmac } from 'node:crypto'
import type { TraceParent } from './trace-parent.ts'

export interface SamplingDeps {
  /** The part of the requests that is recorded, 0 to 1. */
  readonly ratio: number
  /** Whether a request is left out when its client does not record the trace that it belongs to. */
  readonly followsParent: boolean
  /** Makes the choice of traces unpredictable for clients, and the same at all nodes. */
  readonly key: Buffer
  /** Uniform in [0, 1). */
  readonly random: () => number
}

/**
 * Decides which requests are recorded. A request of a trace that its client records is recorded with the whole trace or
 * not at all: by a keyed hash of the trace id, so that a client cannot choose ids that are always recorded. One that
 * repeats such an id is held to the ratio by an allowance, which every request with a trace of its client fills.
 */
export class Sampling {
  readonly #deps: SamplingDeps
  #allowance = ALLOWANCE_MAX

  constructor(deps: SamplingDeps) {
    this.#deps = deps
  }

  /** Whether a request is recorded. `parent`: the trace of its client, or null. */
  records(parent: TraceParent | null): boolean {
    const { ratio, followsParent, random } = this.#deps
    if (parent === null) return ratio >= 1 || random() < ratio
    this.#allowance = Math.min(ALLOWANCE_MAX, this.#allowance + ratio)
    if (followsParent && !parent.isSampled) return false
    if (ratio >= 1) return true
    if (this.#allowance < 1 || this.#position(parent.traceId) >= ratio) return false
    this.#allowance--
    return true
  }

  /** Returns a number from 0 up to 1 that is the same for all requests of a trace. */
  #position(traceId: string): number {
    const digest = createHmac('sha256', this.#deps.key).update(traceId).digest()
    return digest.readUInt32BE(0) / 2 ** 32
  }
}

/** Requests that one trace may record at once above the ratio: an agent sends dozens for one task. */
const ALLOWANCE_MAX = 100
