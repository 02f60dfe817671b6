import { Worker } from 'node:worker_threads'
import type { Redact } from '../../base/domain/request-content.ts'

/** Texts together that wait or are being redacted, in UTF-16 units. */
const UNITS_MAX = 8 * 1024 * 1024
/** 128 kB take 20 ms. A text that takes this long has met a pattern that backtracks: the thread is ended. */
const TIMEOUT_MS = 10_000

export interface ToThread {
  readonly id: number
  readonly texts: readonly string[]
}

export interface FromThread {
  readonly id: number
  readonly texts: readonly string[]
  readonly redactions: number
}

type Redacted = Awaited<ReturnType<Redact>>

interface Pending {
  readonly units: number
  readonly timer: NodeJS.Timeout
  resolve(redacted: Redacted): void
}

/**
 * Takes credentials and personal data out of texts, on a thread of its own. The thread starts with the first text and does
 * not keep the process alive.
 */
export class Redactor {
  #thread: Worker | undefined
  #isClosed = false
  #lastId = 0
  #units = 0
  readonly #pending = new Map<number, Pending>()

  /** Resolves with null when the texts cannot be redacted: too much waits, the thread is too slow, or it has failed. */
  readonly redact: Redact = texts => {
    const units = texts.reduce((sum, { length }) => sum + length, 0)
    if (this.#isClosed || this.#units + units > UNITS_MAX) return Promise.resolve(null)
    const id = ++this.#lastId
    const { promise, resolve } = Promise.withResolvers<Redacted>()
    const timer = setTimeout(() => this.#endThread(), TIMEOUT_MS)
    timer.unref()
    this.#pending.set(id, { units, timer, resolve })
    this.#units += units
    this.#thread ??= this.#startThread()
    this.#thread.postMessage({ id, texts } satisfies ToThread)
    return promise
  }

  /** Ends the thread. Texts that are being redacted resolve with null. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#endThread()
  }

  #startThread(): Worker {
    const thread = new Worker(new URL('./redaction-thread.ts', import.meta.url), {
      name: 'redaction',
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16 },
    })
    thread.unref()
    thread.on('message', ({ id, texts, redactions }: FromThread) => this.#settle(id, { texts, redactions }))
    // The next text starts a new thread.
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
    for (const id of this.#pending.keys()) this.#settle(id, null)
  }

  #settle(id: number, redacted: Redacted): void {
    const pending = this.#pending.get(id)
    if (pending === undefined) return
    this.#pending.delete(id)
    this.#units -= pending.units
    clearTimeout(pending.timer)
    pending.resolve(redacted)
  }
}
