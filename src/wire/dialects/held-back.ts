import type { AnswerEvent } from '../../base/domain/answer-event.ts'
import { UpstreamFailure } from '../../base/domain/upstream-failure.ts'

/** Events of one answer that may wait; neighbours of the same kind count once. */
const EVENTS_MAX = 4_096
/** UTF-16 units of texts of one answer that may wait. */
const UNITS_MAX = 1_048_576

/**
 * Limits what of one answer waits until an earlier part of it ends. Servers write nearly everything in order. What
 * waits was neither delivered nor counted, so that otherwise no limit of the request would apply to it.
 */
export class HeldBack {
  #events = 0
  #units = 0

  /** Counts an event that has to wait. Throws UpstreamFailure `malformed` above the limits. */
  add(event: AnswerEvent, isNew: boolean): void {
    if (isNew) this.#events++
    if ('text' in event) this.#units += event.text.length
    else if ('citation' in event) this.#units += JSON.stringify(event.citation).length
    else if ('annotation' in event) this.#units += JSON.stringify(event.annotation).length
    if (this.#events <= EVENTS_MAX && this.#units <= UNITS_MAX) return
    throw new UpstreamFailure('malformed', 'The answer has too much text ahead of an unfinished part.')
  }
}

/** Returns both events as one, or null if they are of different kinds. How texts are split has no meaning. */
export function joinEvents<Event extends AnswerEvent>(first: Event, second: AnswerEvent): Event | null {
  const isText = 'text' in first && 'text' in second && first.kind === second.kind
  return isText ? { ...first, text: first.text + second.text } : null
}
