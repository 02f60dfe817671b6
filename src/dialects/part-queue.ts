import type { AnswerEvent } from '../domain/answer-event.ts'
import { isCompleteObject } from './tool-arguments.ts'

type ToolStart = Extract<AnswerEvent, { kind: 'tool_start' }>
type Said = Extract<AnswerEvent, { kind: 'text' | 'reasoning' | 'reasoning_seal' | 'refusal' }>

interface QueuedCall {
  readonly key: unknown
  readonly start: ToolStart
  /** All arguments so far, and how many UTF-16 units of them have been passed on. */
  arguments: string
  sentUnits: number
  isStarted: boolean
  isEnded: boolean
  /** Whether the arguments were checked for completeness. Repeated checks of a long text would be quadratic. */
  isChecked: boolean
}

/**
 * Puts the parts of one answer in order: each ends before the next one starts. Calls with pieces that arrive mixed are held
 * back until the call before them has ended: at its explicit end, once its arguments are complete and something waits, or at the
 * end of the answer.
 */
export class PartQueue {
  readonly #queue: (QueuedCall | Said)[] = []
  #hasCalls = false

  /** Whether the answer called a tool. */
  get hasCalls(): boolean {
    return this.#hasCalls
  }

  /** Whether the next event is due at once, because nothing is held back. */
  get isEmpty(): boolean {
    return this.#queue.length === 0
  }

  /** Adds text, reasoning or a refusal. Returns the events that are due. */
  say(event: Said): AnswerEvent[] {
    if (this.#queue.length === 0) return [event]
    this.#queue.push(event)
    return this.#due()
  }

  /** Starts a call, which `key` names from now on. Returns the events that are due. */
  startCall(key: unknown, start: ToolStart): AnswerEvent[] {
    this.#hasCalls = true
    this.#queue.push({
      ...{ key, start, arguments: '', sentUnits: 0 },
      ...{ isStarted: false, isEnded: false, isChecked: false },
    })
    return this.#due()
  }

  /** Adds to the arguments of a call. Pieces for a call that has ended are ignored. Returns the events that are due. */
  addArguments(key: unknown, text: string): AnswerEvent[] {
    const call = this.#find(key)
    if (call === undefined) return []
    call.arguments += text
    return this.#due()
  }

  /** Ends a call. Returns the events that are due. */
  endCall(key: unknown): AnswerEvent[] {
    const call = this.#find(key)
    if (call === undefined) return []
    call.isEnded = true
    return this.#due()
  }

  /** Ends every part. Returns all events that were held back. */
  flush(): AnswerEvent[] {
    for (const part of this.#queue) if ('key' in part) part.isEnded = true
    return this.#due()
  }

  #find(key: unknown): QueuedCall | undefined {
    for (const part of this.#queue) if ('key' in part && part.key === key && !part.isEnded) return part
    return undefined
  }

  #due(): AnswerEvent[] {
    const events: AnswerEvent[] = []
    let [head] = this.#queue
    while (head !== undefined) {
      if (!('key' in head)) events.push(head)
      else if (!this.#passOn(head, events)) break
      this.#queue.shift()
      ;[head] = this.#queue
    }
    return events
  }

  /** Adds what is new of the first call. Returns whether it has ended. */
  #passOn(call: QueuedCall, events: AnswerEvent[]): boolean {
    if (!call.isStarted) events.push(call.start)
    call.isStarted = true
    if (this.#queue.length > 1 && !call.isChecked) {
      call.isChecked = true
      if (isCompleteObject(call.arguments)) call.isEnded = true
    }
    if (call.isEnded && call.start.toolKind === 'function' && call.arguments.trim() === '') call.arguments = '{}'
    const text = call.arguments.slice(call.sentUnits)
    call.sentUnits = call.arguments.length
    if (text !== '') events.push({ kind: 'tool_arguments', text })
    if (call.isEnded) events.push({ kind: 'tool_end' })
    return call.isEnded
  }
}
