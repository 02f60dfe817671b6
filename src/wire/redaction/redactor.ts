import { Worker } from 'node:worker_threads'
import type { Redact, RedactableText, RedactedTexts } from '../../base/domain/request-content.ts'

/** Requests together that wait or are being redacted, in UTF-16 units, and those of one customer, so that the others find room. */
const UNITS_MAX = 8 * 1024 * 1024
const CUSTOMER_UNITS_MAX = UNITS_MAX / 4
/** What a request costs besides its texts, as text that takes as long. */
const REQUEST_UNITS = 4_096
/** A request that takes this long has met a pattern that backtracks: the thread is ended, and the request is lost. */
const TIMEOUT_MS = 10_000

export type ToThread = readonly RedactableText[]
export type FromThread = RedactedTexts

interface Pending {
  readonly customerId: string
  readonly texts: readonly RedactableText[]
  readonly units: number
  resolve(redacted: RedactedTexts | null): void
}

/**
 * Takes credentials and personal data out of texts, on a thread of its own, one request after another. The thread starts with the
 * first text and does not keep the process alive.
 */
export class Redactor {
  #thread: Worker | undefined
  #isClosed = false
  readonly #waiting: Pending[] = []
  #running: Pending | undefined
  #timer: NodeJS.Timeout | undefined
  #units = 0
  readonly #unitsOf = new Map<string, number>()

  /** Resolves with null when the texts cannot be redacted: too much waits, the thread is too slow, or it has failed. */
  readonly redact: Redact = (texts, customerId) => {
    const units = texts.reduce((sum, { text }) => sum + text.length, REQUEST_UNITS)
    const ofCustomer = (this.#unitsOf.get(customerId) ?? 0) + units
    const hasRoom = this.#units + units <= UNITS_MAX && ofCustomer <= CUSTOMER_UNITS_MAX
    if (this.#isClosed || !hasRoom) return Promise.resolve(null)
    this.#units += units
    this.#unitsOf.set(customerId, ofCustomer)
    const { promise, resolve } = Promise.withResolvers<RedactedTexts | null>()
    this.#waiting.push({ customerId, texts, units, resolve })
    this.#runNext()
    return promise
  }

  /** Ends the thread. Texts that are being redacted resolve with null. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const pending of this.#waiting.splice(0)) this.#settle(pending, null)
    await this.#endThread()
  }

  #runNext(): void {
    if (this.#running !== undefined) return
    this.#running = this.#waiting.shift()
    if (this.#running === undefined) return
    this.#timer = setTimeout(() => this.#endThread(), TIMEOUT_MS)
    this.#timer.unref()
    this.#thread ??= this.#startThread()
    this.#thread.postMessage(this.#running.texts satisfies ToThread)
  }

  #startThread(): Worker {
    const thread = new Worker(new URL('./redaction-thread.ts', import.meta.url), {
      name: 'redaction',
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16 },
    })
    thread.unref()
    thread.on('message', (redacted: FromThread) => {
      if (this.#thread === thread) this.#endRunning(redacted)
    })
    // The next request starts a new thread.
    thread.on('error', () => this.#onGone(thread))
    thread.on('exit', () => this.#onGone(thread))
    return thread
  }

  #endThread(): Promise<unknown> {
    const thread = this.#thread
    this.#onGone(thread)
    return thread?.terminate() ?? Promise.resolve()
  }

  #onGone(thread: Worker | undefined): void {
    if (this.#thread !== thread) return
    this.#thread = undefined
    this.#endRunning(null)
  }

  #endRunning(redacted: RedactedTexts | null): void {
    clearTimeout(this.#timer)
    const ended = this.#running
    this.#running = undefined
    if (ended !== undefined) this.#settle(ended, redacted)
    this.#runNext()
  }

  #settle({ customerId, units, resolve }: Pending, redacted: RedactedTexts | null): void {
    this.#units -= units
    const ofCustomer = (this.#unitsOf.get(customerId) ?? 0) - units
    if (ofCustomer > 0) this.#unitsOf.set(customerId, ofCustomer)
    else this.#unitsOf.delete(customerId)
    resolve(redacted)
  }
}
