import { writeSync } from 'node:fs'

/**
 * The places where a process can be made to break, for tests of crashes (docs/chaos.md). Each name stands in exactly one place of the
 * code; the text says what is true there.
 */
export const failpoints = {
  // A request.
  'chat-authenticated': 'the caller is known; nothing is counted or held',
  'admission-begun': 'the worst case is known; nothing is held',
  'admission-answered': 'its money is held; nothing was sent to a model server',
  'dispatch-before-send': 'a model server was chosen and not asked',
  'upstream-headers': 'the model server has begun to answer; the client has nothing',
  'dispatch-answered': 'the first content, or the whole answer, is here; the client has nothing',
  'relay-mid-stream': 'more of a stream is about to leave; the client may have a part of it',
  'settlement-before-build': 'the answer has ended; its cost is not computed',
  'settlement-built': 'the cost is computed and known to this process alone',
  'journal-before-write': 'charges are about to be written to the journal',
  'journal-written': 'charges are in the journal; nobody who waits for that knows',
  'settlement-acknowledged': 'the charge is safe; the last bytes of the answer have not left',
  'answer-sent': 'the last bytes have left',
  // Batches that go to PostgreSQL.
  'admissions-before-send': 'holds are wanted; PostgreSQL has not heard of them',
  'admissions-committed': 'holds are placed; the requests that wait for them do not know',
  'bulk-lease-answered': 'PostgreSQL has answered about a bulk lease; nothing was admitted from it',
  'bulk-lease-recalled': 'another node wants back what this one does not need; it has not begun to give it',
  'hand-back-before-send': 'a bulk lease is about to be folded and handed back',
  'hand-back-committed': 'it is handed back; this node still counts it as its own',
  'settlements-before-send': 'charges are in the journal and about to be committed',
  'settlements-committed': 'charges are committed; the journal still has them',
  // The journal, looked after.
  'journal-rotating': 'a segment is full; the next one does not exist',
  'segment-before-removal': 'every record of a segment is committed; it is still there',
  'segment-removed': 'it is gone from the disk; the process still counts it',
  // A start.
  'node-noted': 'the id of the new process is in its data directory; PostgreSQL does not know it',
  'node-registered': 'PostgreSQL knows it; it has looked after nothing yet',
  'replay-begun': 'charges of a process that died were read from the journal; none was sent',
  'replay-settled': 'they are committed; the leases of that process are open',
  'replay-buried': 'its leases are ended; its journal and its id are still there',
  // What goes on by itself.
  'heartbeat-before-send': 'the node is alive and has not said so again',
  'heartbeat-sent': 'the node has just said that it is alive',
  'reap-before-send': 'leases of dead nodes are about to be looked for',
  'reap-buried': 'nodes were declared dead; their leases are open',
  'reap-customer-reclaimed': 'the leases of one customer are ended, those of others are not',
  // A stop.
  'drain-idle': 'no request runs; charges may be waiting to be committed',
  'drain-flushed': 'every charge is committed and every lease handed back',
  'drain-before-retire': 'only its row still says that it is alive',
  'drain-retired': 'it is dead to the others; its id is still in its data directory',
} as const satisfies Record<string, string>

export type FailpointName = keyof typeof failpoints

/** `kill` and `stop` are SIGKILL and SIGSTOP of this process, `throw` an Error, a number blocks the process for so many milliseconds. */
export type FailpointAction = 'kill' | 'stop' | 'throw' | number

export interface ArmedFailpoint {
  readonly name: FailpointName
  /** Acts only when it is passed for this time, counting from 1; null: each time. */
  readonly hit: number | null
  readonly action: FailpointAction
}

/** Does nothing, at the price of one comparison, unless `armFailpoints` was told otherwise for this place. */
export function failpoint(name: FailpointName): void {
  if (armed !== null) pass(name, armed)
}

/** From now on these places break this process; none of them do when the list is empty. Counts start again. */
export function armFailpoints(list: readonly ArmedFailpoint[]): void {
  armed = list.length === 0 ? null : list.map(each => ({ ...each, passed: 0 }))
}

/**
 * Reads `name:action` or `name:hit=3:action`, several with commas between, as SWITCHYARD_FAILPOINTS holds them. Actions are `kill`,
 * `stop`, `throw` and `delay=<ms>`. Undefined when any of it is something else.
 */
export function parseFailpoints(text: string): ArmedFailpoint[] | undefined {
  const parsed = text.split(',').map(parseFailpoint)
  return parsed.every(each => each !== undefined) ? parsed : undefined
}

type Counted = ArmedFailpoint & { passed: number }

let armed: readonly Counted[] | null = null

function pass(name: FailpointName, list: readonly Counted[]): void {
  for (const each of list) {
    if (each.name !== name) continue
    each.passed++
    if (each.hit === null || each.hit === each.passed) act(each)
  }
}

function act({ name, action }: ArmedFailpoint): void {
  // Not by the log, which is written later: there may be no later.
  writeSync(2, `${JSON.stringify({ failpoint: name, action })}\n`)
  if (action === 'throw') throw new Error(`failpoint ${name}`)
  if (typeof action === 'number') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, action)
  else process.kill(process.pid, action === 'kill' ? 'SIGKILL' : 'SIGSTOP')
}

const SYNTAX = /^([a-z-]+)(?::hit=([1-9]\d{0,5}))?:(?:(kill|stop|throw)|delay=(\d{1,5}))$/

function parseFailpoint(text: string): ArmedFailpoint | undefined {
  const [, name, hit, action, delayMs] = SYNTAX.exec(text.trim()) ?? []
  if (name === undefined || !Object.hasOwn(failpoints, name)) return undefined
  return {
    name: name as FailpointName,
    hit: hit === undefined ? null : Number(hit),
    action: (action as FailpointAction | undefined) ?? Number(delayMs),
  }
}
