import { createRandom, type Random } from './random.ts'

/**
 * The event loop and the clock of a run. It handles one event at a time: all promise continuations that an event causes run before the next
 * event, so the seed alone determines the run.
 */
export interface World {
  readonly random: Random
  /** True time, ms since the start of the run. No process sees it. */
  readonly nowMs: number
  /** Schedules `work`. Events run in the order of their times, then of the calls. Returns a function that cancels the event. */
  at(timeMs: number, work: () => void): () => void
  /** Records an event in the fingerprint of the run, and in the trace if there is one. */
  note(actor: string, what: string, ...facts: Fact[]): void
  /** Records a broken invariant. The first failure ends the run. */
  fail(rule: string, why: string): void
  readonly failure: Failure | undefined
  /** Runs events until `untilMs`, or until a failure. */
  run(untilMs: number): Promise<void>
  readonly events: number
  /** Hash of all notes so far, with their times. */
  readonly fingerprint: string
}

export type Fact = string | number | bigint | boolean | null

export interface Failure {
  readonly rule: string
  readonly why: string
  readonly atMs: number
}

/** `trace` receives a line for each event. */
export function createWorld(seed: number, trace?: (line: string) => void): World {
  const random = createRandom(seed)
  const queue: Event[] = []
  let nowMs = 0
  let calls = 0
  let events = 0
  let hash = 0x811c9dc5
  let failure: Failure | undefined

  return {
    random,
    get nowMs() {
      return nowMs
    },
    at(timeMs, work) {
      const event: Event = { timeMs: timeMs > nowMs ? timeMs : nowMs, call: calls++, work }
      push(queue, event)
      return () => {
        event.work = undefined
      }
    },
    note(actor, what, ...facts) {
      mixNumber(nowMs)
      mixText(actor)
      mixText(what)
      for (const fact of facts) {
        if (typeof fact === 'number') mixNumber(fact)
        else mixText(String(fact))
      }
      trace?.(`${nowMs.toFixed(3).padStart(12)}  ${actor.padEnd(8)} ${what} ${facts.map(shown).join(' ')}`)
    },
    fail(rule, why) {
      if (failure !== undefined) return
      failure = { rule, why, atMs: nowMs }
      trace?.(`${nowMs.toFixed(3).padStart(12)}  FAILED   ${rule}: ${why}`)
    },
    get failure() {
      return failure
    },
    async run(untilMs) {
      // After this line, the code runs in a continuation, as `continuations` requires.
      await continuations()
      for (;;) {
        const next = queue[0]
        if (next === undefined || next.timeMs > untilMs || failure !== undefined) break
        pop(queue)
        if (next.work === undefined) continue
        nowMs = next.timeMs
        events++
        next.work()
        await continuations()
      }
      if (failure === undefined && nowMs < untilMs) nowMs = untilMs
    },
    get events() {
      return events
    },
    get fingerprint() {
      return (hash >>> 0).toString(16).padStart(8, '0')
    },
  }

  function mixNumber(value: number): void {
    hash = Math.imul(hash ^ (value | 0), 0x01000193)
    hash = Math.imul(hash ^ ((value * 4096) | 0), 0x01000193)
  }

  function mixText(text: string): void {
    for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  }
}

interface Event {
  readonly timeMs: number
  readonly call: number
  work: (() => void) | undefined
}

/**
 * Resolves when all promise continuations have run, including those that they cause. Must be called from a continuation: Node serves the tick
 * queue when the queue of continuations is empty. Waiting for a turn of the event loop would work too, at ten times the cost.
 */
function continuations(): Promise<void> {
  return new Promise(resolve => process.nextTick(resolve))
}

function shown(fact: Fact): string {
  return typeof fact === 'number' && !Number.isInteger(fact) ? fact.toFixed(3) : String(fact)
}

// A binary heap: the earliest event first; equal times keep the order of the calls.

function isBefore(a: Event, b: Event): boolean {
  return a.timeMs < b.timeMs || (a.timeMs === b.timeMs && a.call < b.call)
}

function push(heap: Event[], event: Event): void {
  let at = heap.length
  heap.push(event)
  while (at > 0) {
    const parent = (at - 1) >> 1
    if (isBefore(heap[parent]!, event)) break
    heap[at] = heap[parent]!
    at = parent
  }
  heap[at] = event
}

function pop(heap: Event[]): void {
  const last = heap.pop()!
  const { length } = heap
  if (length === 0) return
  let at = 0
  for (;;) {
    let child = 2 * at + 1
    if (child >= length) break
    if (child + 1 < length && isBefore(heap[child + 1]!, heap[child]!)) child++
    if (isBefore(last, heap[child]!)) break
    heap[at] = heap[child]!
    at = child
  }
  heap[at] = last
}
