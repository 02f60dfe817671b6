import type { Sql } from '../../../base/db/pool.ts'
import type { ContentMessage, Redact, RedactableText, RequestContent } from '../../../base/domain/request-content.ts'
import type { Log } from '../../../base/runtime/log.ts'
import type { Clock, Scheduler } from '../../../base/runtime/scheduler.ts'

export interface ContentRecorderDeps {
  readonly sql: Sql
  readonly redact: Redact
  /** Encrypts the content of a request. */
  readonly seal: (text: string, requestId: string) => Buffer
  readonly scheduler: Pick<Scheduler, 'after'>
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly onLost: (requests: number) => void
  readonly log: Pick<Log, 'warn'>
}

/** A request that was served. */
export interface ServedContent {
  readonly requestId: string
  readonly customerId: string
  readonly messages: readonly (ContentMessage & RedactableText)[]
  /** The reasoning, the content and the calls of each choice. */
  readonly answer: readonly RedactableText[]
  /** Messages were left out. */
  readonly isCut: boolean
}

/** Texts that are being redacted, or wait to be written, in UTF-16 units. What would be more is not recorded. */
const WAITING_UNITS_MAX = 16 * 1024 * 1024
const BATCH_MAX = 200
const WRITE_AFTER_MS = 500
const LOG_INTERVAL_MS = 60_000
/** How long a stop waits. Charges are committed after it, so it must be short. */
const CLOSE_MS = 5_000

/**
 * Records what keys record: redacted, sealed, and written in batches after the request has ended. Neither delays nor fails a
 * request; what cannot be redacted or written is lost, and the log says so at most once a minute, and at the end.
 */
export class ContentRecorder {
  readonly #deps: ContentRecorderDeps
  #waitingUnits = 0
  #rows: Row[] = []
  #writing: Promise<void> | null = null
  #cancelTimer: (() => void) | null = null
  #isClosed = false
  #lost = 0
  #lostBy = ''
  #loggedAtMs = Number.NEGATIVE_INFINITY
  #running = new Set<Promise<unknown>>()

  constructor(deps: ContentRecorderDeps) {
    this.#deps = deps
  }

  /** Resolves with what is recorded, before it is written; with null if nothing is. Never rejects. */
  record(served: ServedContent): Promise<RequestContent | null> {
    const units = [...served.answer, ...served.messages].reduce((sum, { text }) => sum + text.length, 0)
    if (this.#waitingUnits + units > WAITING_UNITS_MAX) {
      this.#noteLost('too many texts wait')
      return Promise.resolve(null)
    }
    this.#waitingUnits += units
    const recorded = this.#redacted(served, units)
    this.#running.add(recorded)
    void recorded.finally(() => this.#running.delete(recorded))
    return recorded
  }

  async #redacted({ requestId, customerId, messages, answer, isCut }: ServedContent, units: number) {
    try {
      const all = [...messages, ...answer]
      const redacted = await this.#deps.redact(all, customerId)
      if (redacted === null) {
        this.#waitingUnits -= units
        this.#noteLost('texts could not be redacted')
        return null
      }
      const { texts, redactions } = redacted
      const content: RequestContent = {
        messages: messages.map(({ role }, index) => ({ role, text: texts[index] ?? '' })),
        answer: texts.slice(messages.length).join('\n'),
        redactions,
        isCut: isCut || all.some(({ text, length }) => length < text.length),
      }
      const sealed = this.#deps.seal(JSON.stringify(content), requestId)
      this.#rows.push({ requestId, customerId, sealed, units })
      this.#writeSoon()
      return content
    } catch (error) {
      this.#waitingUnits -= units
      this.#noteLost((error as Error).message)
      return null
    }
  }

  /** Writes what waits, for at most five seconds. Call it when no more requests run. */
  async close(): Promise<void> {
    const late = Promise.withResolvers<void>()
    const cancel = this.#deps.scheduler.after(CLOSE_MS, late.resolve)
    await Promise.race([this.#drain(), late.promise])
    cancel()
    this.#isClosed = true
    this.#cancelTimer?.()
    const left = this.#running.size + this.#rows.length
    if (left > 0) this.#noteLost('the gateway stopped before they were written', left)
    this.#logLost()
  }

  async #drain(): Promise<void> {
    await Promise.all(this.#running)
    while (!this.#isClosed && (this.#writing !== null || this.#rows.length > 0)) await this.#write()
  }

  #writeSoon(): void {
    if (this.#isClosed) return
    if (this.#rows.length >= BATCH_MAX) void this.#write()
    else {
      this.#cancelTimer ??= this.#deps.scheduler.after(WRITE_AFTER_MS, () => {
        this.#cancelTimer = null
        void this.#write()
      })
    }
  }

  /** Resolves when the running batch, or the next one if none runs, is written or lost. */
  #write(): Promise<void> {
    if (this.#writing === null && this.#rows.length > 0) this.#writing = this.#writeBatch()
    return this.#writing ?? Promise.resolve()
  }

  async #writeBatch(): Promise<void> {
    const batch = this.#rows.splice(0, BATCH_MAX)
    try {
      await insertContents(this.#deps.sql, batch)
    } catch (error) {
      this.#noteLost((error as Error).message, batch.length)
    }
    for (const { units } of batch) this.#waitingUnits -= units
    this.#writing = null
    if (this.#rows.length > 0) this.#writeSoon()
  }

  #noteLost(reason: string, count = 1): void {
    this.#deps.onLost(count)
    this.#lost += count
    this.#lostBy = reason
    if (this.#deps.clock.monotonicMs() >= this.#loggedAtMs + LOG_INTERVAL_MS) this.#logLost()
  }

  #logLost(): void {
    if (this.#lost === 0) return
    this.#deps.log.warn({ reason: this.#lostBy, requests: this.#lost }, 'prompts and answers were not recorded')
    this.#loggedAtMs = this.#deps.clock.monotonicMs()
    this.#lost = 0
  }
}

interface Row {
  readonly requestId: string
  readonly customerId: string
  readonly sealed: Buffer
  readonly units: number
}

/** A request may end after its customer was deleted, with all that was recorded of it. */
async function insertContents(sql: Sql, rows: readonly Row[]): Promise<void> {
  await sql.query(
    `INSERT INTO request_content (request_id, customer_id, sealed)
     SELECT request_id, customer_id, sealed FROM unnest($1::uuid[], $2::uuid[], $3::bytea[]) AS row (request_id, customer_id, sealed)
       JOIN customer USING (customer_id) WHERE deleted_at IS NULL ON CONFLICT DO NOTHING`,
    [
      rows.map(({ requestId }) => requestId),
      rows.map(({ customerId }) => customerId),
      rows.map(({ sealed }) => sealed),
    ],
  )
}
