import { writeSync } from 'node:fs'

/**
 * The places where a crash test can break a process (docs/chaos.md). Each name occurs at exactly one place in
 * the code; the text describes the state there.
 */
export const failpoints = {
  // A request.
  'chat-authenticated': 'the caller is known; nothing is counted or held',
  'admission-begun': 'the worst-case cost is known; nothing is held',
  'admission-answered': 'the money is held; nothing was sent to a model server',
  'dispatch-before-send': 'a model server is chosen; nothing was sent to it',
  'upstream-headers': 'the model server has begun to answer; the client has nothing',
  'dispatch-answered': 'the first content or the whole answer has arrived; the client has nothing',
  'relay-mid-stream': 'more of a stream is about to be sent; the client may have a part of it',
  'settlement-before-build': 'the answer has ended; its cost is not computed',
  'settlement-built': 'the cost is computed and known to this process alone',
  'journal-before-write': 'charges are about to be written to the journal',
  'journal-written': 'charges are in the journal; the requests that wait for this are not notified',
  'settlement-acknowledged': 'the charge is safe; the last bytes of the answer are not sent',
  'answer-sent': 'the last bytes are sent',
  // Batches for PostgreSQL.
  'admissions-before-send': 'holds are requested; PostgreSQL has not received the request',
  'admissions-committed': 'holds are placed; the requests that wait for them are not notified',
  'bulk-lease-answered': 'PostgreSQL has answered about a bulk lease; nothing was admitted from it',
  'bulk-lease-recalled':
    'another node has recalled the unused part of a bulk lease; this node has not begun to return it',
  'hand-back-before-send': 'a bulk lease is about to be folded and returned',
  'hand-back-committed': 'the bulk lease is returned; this node still counts it as its own',
  'settlements-before-send': 'charges are in the journal and about to be committed',
  'settlements-committed': 'charges are committed; the journal still has them',
  // Maintenance of the journal.
  'journal-rotating': 'a segment is full; the next one does not exist',
  'segment-before-removal': 'every record of a segment is committed; the segment still exists',
  'segment-removed': 'the segment is deleted; the process still counts it',
  // A start.
  'node-noted': 'the new process has an id; PostgreSQL does not know it',
  'node-registered': 'PostgreSQL knows the new process; recovery has not begun',
  'replay-begun': 'charges of a dead process were read from its journal; none was sent',
  'replay-settled': 'the charges of the dead process are committed; its leases are open',
  'replay-buried': 'the leases of the dead process are ended; its journal and its id still exist',
  'node-recorded': 'the id of the new process is in its data directory; it has no lease',
  // Background work.
  'heartbeat-before-send': 'the node is alive; its next heartbeat is not sent',
  'heartbeat-sent': 'a heartbeat was just sent',
  'reap-before-send': 'the search for leases of dead nodes is about to start',
  'reap-buried': 'nodes were declared dead; their leases are open',
  'reap-customer-reclaimed': 'the leases of one customer are ended; those of other customers are open',
  // A payment of a provider.
  'payment-started': 'the provider has a page for the payer; its name is not stored',
  'payment-charged': 'a saved method is charged; its name is not stored',
  'payment-event-noted': 'an event is stored; the provider was not asked what has changed',
  'payment-looked': 'the provider has answered; nothing is booked',
  'payment-booking': 'a payment is booked in a transaction that is not committed',
  'payment-booked': 'a payment is booked; the provider does not know that its event was handled',
  'payment-refunded': 'the provider refunds a payment; the books do not have its name of the refund',
  // A payout to a hoster.
  'payout-begun': 'a payout is marked as on its way; its provider was not asked',
  'payout-sent': 'the provider has made a transfer; its name is not stored',
  'payout-looked': 'the provider has answered; nothing is booked',
  'payout-booking': 'a payout is booked in a transaction that is not committed',
  'payout-booked': 'a payout is booked; the provider does not know that its event was handled',
  'payout-event-noted': 'an event of a payout is stored; the provider was not asked what has changed',
  // A move of a customer to another cell.
  'cell-move-stopped': 'the customer is refused; its balance is still in its cell',
  'cell-move-sent': 'the balance has left the cell; the other one has not received it',
  'cell-move-received': 'the other cell serves the customer; this one does not pass its keys on',
  'cell-move-refused': 'the other cell will never receive the move; this one still counts it',
  // A stop.
  'drain-idle': 'no request runs; charges may be waiting to be committed',
  'drain-flushed': 'every charge is committed and every lease returned',
  'drain-before-retire': 'only the row of the node still marks it as alive',
  'drain-retired': 'the node is marked dead; its id is still in its data directory',
} as const satisfies Record<string, string>

export type FailpointName = keyof typeof failpoints

/**
 * `kill` and `stop` send SIGKILL and SIGSTOP to this process, `throw` throws an Error, and a number blocks
 * the process for that many ms.
 */
export type FailpointAction = 'kill' | 'stop' | 'throw' | number

export interface ArmedFailpoint {
  readonly name: FailpointName
  /** Acts only on the n-th pass, counting from 1; null: on every pass. */
  readonly hit: number | null
  readonly action: FailpointAction
}

/** Acts if `armFailpoints` armed this place; otherwise costs one comparison. */
export function failpoint(name: FailpointName): void {
  if (armed !== null) pass(name, armed)
}

/** Arms these failpoints in place of all earlier ones and resets their counts. An empty list disarms all. */
export function armFailpoints(list: readonly ArmedFailpoint[]): void {
  armed = list.length === 0 ? null : list.map(each => ({ ...each, passed: 0 }))
}

/**
 * Parses SWITCHYARD_FAILPOINTS: `name:action` or `name:hit=3:action`, separated by commas. Actions are
 * `kill`, `stop`, `throw` and `delay=<ms>`. Undefined when any part is invalid.
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
  // Written directly: the log writes later, when this process may be dead.
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
