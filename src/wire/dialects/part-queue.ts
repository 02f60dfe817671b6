import type { AnswerEvent } from '../../base/domain/answer-event.ts'
import { type HeldBack, joinEvents } from './held-back.ts'
import { isCompleteObject } from './tool-arguments.ts'

type ToolStart = Extract<AnswerEvent, { kind: 'tool_start' }>
type Said = Extract<
  AnswerEvent,
  { kind: 'text' | 'text_start' | 'citation' | 'annotation' | 'reasoning' | 'reasoning_seal' | 'refusal' }
>

interface QueuedCall {
  readonly key: unknown
  readonly start: ToolStart
  /** All arguments so far. */
  arguments: string
  /** Those not passed on yet: cutting them off the whole text would copy it for each piece. */
  unsent: string
  isStarted: boolean
  isEnded: boolean
  /** Whether the arguments were checked for completeness. Repeated checks of a long text would be quadratic. */
  isChecked: boolean
}

/**
 * Puts the parts of one answer in order: each ends before the next one starts. Calls with pieces that arrive mixed are
 * held back until the call before them has ended: at its explicit end, once its arguments are complete and something
 * waits, or at the end of the answer.
 */
export class PartQueue {
  #queue: (QueuedCall | Said)[] = []
  /** The calls in the queue. Searching the queue for each of their pieces would be quadratic. */
  readonly #calls: QueuedCall[] = []
  #hasCalls = false
  readonly #held: HeldBack | null

  /** @param held limits what waits; null if the answer was limited before */
  constructor(held: HeldBack | null = null) {
    this.#held = held
  }

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
    const last = this.#queue.at(-1)!
    const joined = 'key' in last ? null : joinEvents(last, event)
    this.#held?.add(event, joined === null)
    if (joined === null) this.#queue.push(event)
    else this.#queue[this.#queue.length - 1] = joined
    return this.#due()
  }

  /** Starts a call, which `key` names from now on. Returns the events that are due. */
  startCall(key: unknown, start: ToolStart): AnswerEvent[] {
    this.#hasCalls = true
    const call: QueuedCall = {
      key,
      start,
      arguments: '',
      unsent: '',
      isStarted: false,
      isEnded: false,
      isChecked: false,
    }
    this.#queue.push(call)
    this.#calls.push(call)
    return this.#due()
  }

  /** Adds to the arguments of a call. Pieces for a call that has ended are ignored. Returns the events that are due. */
  addArguments(key: unknown, text: string): AnswerEvent[] {
    const call = this.#find(key)
    if (call === undefined) return []
    if (call !== this.#queue[0]) this.#held?.add({ kind: 'tool_arguments', text }, false)
    call.arguments += text
    call.unsent += text
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
    for (const call of this.#calls) call.isEnded = true
    return this.#due()
  }

  #find(key: unknown): QueuedCall | undefined {
    return this.#calls.find(call => call.key === key && !call.isEnded)
  }

  #due(): AnswerEvent[] {
    const events: AnswerEvent[] = []
    let ended = 0
    for (const part of this.#queue) {
      if (!('key' in part)) events.push(part)
      else if (this.#passOn(part, this.#queue.length - ended, events)) this.#calls.shift()
      else break
      ended++
    }
    if (ended > 0) this.#queue = this.#queue.slice(ended)
    return events
  }

  /** Adds what is new of a call, the first of so many queued parts. Returns whether it has ended. */
  #passOn(call: QueuedCall, queued: number, events: AnswerEvent[]): boolean {
    if (!call.isStarted) events.push(call.start)
    call.isStarted = true
    if (queued > 1 && !call.isChecked) {
      call.isChecked = true
      if (isCompleteObject(call.arguments)) call.isEnded = true
    }
    const lacksArguments = call.isEnded && call.start.toolKind === 'function' && call.arguments.trim() === ''
    const text = lacksArguments ? '{}' : call.unsent
    call.unsent = ''
    if (text !== '') events.push({ kind: 'tool_arguments', text })
    if (call.isEnded) events.push({ kind: 'tool_end' })
    return call.isEnded
  }
}
