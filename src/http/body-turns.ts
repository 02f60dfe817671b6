import { endOfTurn } from '../runtime/end-of-turn.ts'
import type { Scheduler } from '../runtime/scheduler.ts'

/** Parsing, measuring and forwarding a body of this size takes about 5 ms. */
const LARGE_BODY_BYTES = 262_144
/** Large bodies leave this part of the time to all other work of the process. */
const PAUSE_SHARE = 0.25
const PAUSE_MS_MAX = 100

/** Decides when the body of a request is parsed. */
export interface BodyTurns {
  /** Resolves when a body of this size may be parsed, at the end of a turn of the event loop. */
  next(bodyBytes: number): Promise<void>
}

/**
 * Small bodies are parsed at the end of the turn in which they arrived. Large ones are parsed one at a time, in the
 * order of their arrival, with a pause after each. A body of 8 MB takes 0.2 s. Sixty of them in one turn kept the event
 * loop busy for so long that connections and statements of other requests exceeded their time limits.
 */
export function createBodyTurns(scheduler: Pick<Scheduler, 'after' | 'soon' | 'monotonicMs'>): BodyTurns {
  const waiting: (() => void)[] = []
  let isBusy = false
  const parseNext = () => {
    const parse = waiting.shift()
    isBusy = parse !== undefined
    if (parse === undefined) return
    scheduler.soon(() => {
      const startMs = scheduler.monotonicMs()
      parse()
      // The request runs as far as it can before this callback.
      scheduler.soon(() => {
        const pauseMs = Math.min((scheduler.monotonicMs() - startMs) * PAUSE_SHARE, PAUSE_MS_MAX)
        scheduler.after(pauseMs, parseNext)
      })
    })
  }
  return {
    next: bodyBytes =>
      new Promise(resolve => {
        if (bodyBytes < LARGE_BODY_BYTES) return endOfTurn(resolve)
        waiting.push(resolve)
        if (!isBusy) parseNext()
      }),
  }
}
