import { Worker } from 'node:worker_threads'
import type { MeasureText, TextLength } from '../../base/domain/text-length.ts'

/** Texts that wait or are being measured. */
const TEXTS_MAX = 64
const UNITS_MAX = 8 * 1024 * 1024
/** One customer's texts, so that the others find room. */
const CUSTOMER_TEXTS_MAX = 4

/** How long an admission, or the end of an answer, waits. 40 kB of prose take 2 ms, 140 kB of Thai 50 ms. */
const TIMEOUT_MS = 500

/** Measures this text; or, without a text, no longer measures the one with this id. */
export interface ToThread {
  readonly id: number
  readonly text?: string
}

export interface FromThread {
  readonly id: number
  readonly length: TextLength
}

interface Pending {
  readonly customerId: string
  readonly units: number
  readonly timer: NodeJS.Timeout
  resolve(length: TextLength | null): void
}

/**
 * Measures long texts on a thread of its own, so that no text holds the event loop. The thread starts with the first
 * text and does not keep the process alive.
 */
export class TokenCounter {
  #thread: Worker | undefined
  #isClosed = false
  #lastId = 0
  #units = 0
  readonly #pending = new Map<number, Pending>()
  readonly #timeoutMs: number

  constructor({ timeoutMs = TIMEOUT_MS }: { timeoutMs?: number | undefined } = {}) {
    this.#timeoutMs = timeoutMs
  }

  /** Starts the thread before the first text needs it. */
  start(): void {
    this.#thread ??= this.#startThread()
  }

  /**
   * Resolves with null when the text cannot be measured in time: too many texts are waiting, the thread is too slow,
   * or it has failed.
   */
  readonly measure: MeasureText = (text, customerId) => {
    if (this.#isClosed || !this.#hasRoom(text, customerId)) return Promise.resolve(null)
    return new Promise(resolve => {
      const id = ++this.#lastId
      const timer = setTimeout(() => {
        this.#send({ id })
        this.#settle(id, null)
      }, this.#timeoutMs)
      this.#pending.set(id, { customerId, units: text.length, timer, resolve })
      this.#units += text.length
      this.#send({ id, text })
    })
  }

  /** Ends the thread. Texts that are being measured resolve with null. */
  async close(): Promise<void> {
    this.#isClosed = true
    const thread = this.#thread
    this.#onGone(thread)
    await thread?.terminate()
  }

  #hasRoom(text: string, customerId: string): boolean {
    // An empty queue takes a text of any length.
    if (this.#pending.size === 0) return true
    if (this.#pending.size >= TEXTS_MAX || this.#units + text.length > UNITS_MAX) return false
    let ofCustomer = 0
    for (const pending of this.#pending.values()) if (pending.customerId === customerId) ofCustomer++
    return ofCustomer < CUSTOMER_TEXTS_MAX
  }

  #send(message: ToThread): void {
    this.start()
    this.#thread!.postMessage(message)
  }

  #startThread(): Worker {
    const thread = new Worker(new URL('./token-thread.ts', import.meta.url), {
      name: 'tokens',
      execArgv: [],
      // The vocabulary lies outside the heap.
      resourceLimits: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 8 },
    })
    thread.unref()
    thread.on('message', ({ id, length }: FromThread) => this.#settle(id, length))
    // The next text starts a new thread.
    thread.on('error', () => this.#onGone(thread))
    thread.on('exit', () => this.#onGone(thread))
    return thread
  }

  #onGone(thread: Worker | undefined): void {
    if (this.#thread !== thread) return
    this.#thread = undefined
    for (const id of this.#pending.keys()) this.#settle(id, null)
  }

  #settle(id: number, length: TextLength | null): void {
    const pending = this.#pending.get(id)
    if (pending === undefined) return
    this.#pending.delete(id)
    this.#units -= pending.units
    clearTimeout(pending.timer)
    pending.resolve(length)
  }
}
