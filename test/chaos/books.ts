import { audit } from '../../src/ledger/audit/audit.ts'
import { type ChaosCustomer, chargeOf, outputTokensOf, type Sent } from './customer.ts'
import { eventually } from './eventually.ts'
import type { ChaosWorld } from './world.ts'

/** What may be missing from the books because a fault took it, and nothing else. */
export interface Allowed {
  /** Charges of answers that arrived whole, on nodes whose disk was lost or that slept past their lease: free to the customer. */
  readonly uncharged?: (sent: Sent) => boolean
  /** Money that the platform gives up. None unless given. */
  readonly writeoffs?: boolean
}

export interface Books {
  /** Sentences; none when all is well. */
  readonly problems: readonly string[]
  /** Charged although the client did not get the last bytes: the process died, or the answer came too late, after the charge was safe. */
  readonly chargedInTheWindow: readonly Sent[]
  readonly uncharged: readonly Sent[]
}

/**
 * Waits until every whole answer of these customers is charged and no money of theirs is held by a request that has ended or a node that is
 * gone. Resolves with the milliseconds that took; throws after 90 s.
 */
export async function converged(
  world: ChaosWorld,
  customers: readonly ChaosCustomer[],
  allowed: Allowed = {},
): Promise<number> {
  const ids = customers.map(customer => customer.customerId)
  let left = ''
  try {
    return await eventually('the books converge', async () => {
      left = await unfinished(world, customers, ids, allowed).catch((error: Error) => error.message)
      return left === ''
    })
  } catch (error) {
    throw new Error(`${(error as Error).message}; left: ${left}`)
  }
}

async function unfinished(
  { pool }: ChaosWorld,
  customers: readonly ChaosCustomer[],
  ids: readonly string[],
  allowed: Allowed,
): Promise<string> {
  const { rows } = await pool.query<{ leases: number }>(
    'SELECT count(*)::integer AS leases FROM lease WHERE customer_id = ANY ($1)',
    [ids],
  )
  if (rows[0]!.leases > 0) return `${rows[0]!.leases} leases`
  const settled = await pool.query<{ request_id: string }>(
    'SELECT request_id FROM usage_event WHERE customer_id = ANY ($1)',
    [ids],
  )
  const done = new Set(settled.rows.map(row => row.request_id))
  const missing = customers
    .flatMap(customer => customer.sent)
    .filter(sent => sent.ending === 'whole' && !done.has(sent.requestId!) && allowed.uncharged?.(sent) !== true)
  return missing.length === 0 ? '' : `${missing.length} whole answers without a usage row`
}

/** Compares what clients saw with what the books say, for each request, and audits the ledger. */
export async function checkBooks(
  world: ChaosWorld,
  customers: readonly ChaosCustomer[],
  allowed: Allowed = {},
): Promise<Books> {
  const problems: string[] = []
  const chargedInTheWindow: Sent[] = []
  const uncharged: Sent[] = []
  for (const customer of customers) {
    const books = await booksOf(world, customer, allowed)
    problems.push(...books.problems.map(problem => `${customer.customerId}: ${problem}`))
    chargedInTheWindow.push(...books.chargedInTheWindow)
    uncharged.push(...books.uncharged)
  }
  for (const { name, violations, examples } of await audit(world.pool)) {
    if (violations > 0) problems.push(`audit: ${name} ${violations} times, such as ${examples.join(', ')}`)
  }
  return { problems, chargedInTheWindow, uncharged }
}

interface UsageRow {
  readonly request_id: string
  readonly model_id: string
  readonly output_tokens: number
  readonly cost_nanos: bigint
  readonly writeoff_nanos: bigint
  readonly outcome: string
}

async function booksOf(
  { pool, modelServer }: ChaosWorld,
  { customerId, creditNanos, limits, sent }: ChaosCustomer,
  allowed: Allowed,
): Promise<Books> {
  const problems: string[] = []
  const chargedInTheWindow: Sent[] = []
  const uncharged: Sent[] = []
  const { rows } = await pool.query<UsageRow>(
    'SELECT request_id, model_id, output_tokens, cost_nanos, writeoff_nanos, outcome FROM usage_event WHERE customer_id = $1',
    [customerId],
  )
  const balance = (
    await pool.query<{ posted_nanos: bigint; leased_nanos: bigint; day_spent_nanos: bigint }>(
      'SELECT posted_nanos, leased_nanos, day_spent_nanos FROM balance WHERE customer_id = $1',
      [customerId],
    )
  ).rows[0]!
  const charged = rows.filter(row => row.cost_nanos > 0n)
  const spent = charged.reduce((sum, row) => sum + row.cost_nanos, 0n)

  if (balance.posted_nanos !== creditNanos - spent) {
    problems.push(`has ${balance.posted_nanos} of ${creditNanos} credited, and paid ${spent}`)
  }
  if (balance.posted_nanos < balance.leased_nanos || balance.leased_nanos < 0n) {
    problems.push(`${balance.leased_nanos} held of ${balance.posted_nanos}`)
  }
  if (spent > limits.dailySpendCapNanos) problems.push(`paid ${spent}, more than its cap`)
  const served = modelServer.tagsOf(customerId).size
  if (served > limits.requestsPerDay) problems.push(`${served} requests were sent on, more than its day allows`)
  // What could not be committed in time was called free, and its client was told so.
  const wasTold = new Set(sent.filter(isToldUnsettled).map(({ requestId }) => requestId))
  const writtenOff = rows.filter(row => row.writeoff_nanos > 0n && !wasTold.has(row.request_id))
  if (writtenOff.length > 0 && allowed.writeoffs !== true) {
    problems.push(`written off: ${writtenOff.map(row => `${row.request_id} ${row.outcome}`).join(', ')}`)
  }

  const unexplained = new Set(charged)
  for (const request of sent) {
    const mine = charged.filter(row => isFor(row, request))
    for (const row of mine) {
      unexplained.delete(row)
      if (row.cost_nanos !== chargeOf(request)) {
        problems.push(`${named(request)} was charged ${row.cost_nanos} instead of ${chargeOf(request)}`)
      }
    }
    if (mine.length > 1) problems.push(`${named(request)} was charged ${mine.length} times`)
    else if (request.ending === 'whole' && mine.length === 0) {
      uncharged.push(request)
      if (allowed.uncharged?.(request) !== true) problems.push(`${named(request)} was answered whole and not charged`)
    } else if (request.ending !== 'whole' && mine.length === 1) {
      if (isInTheWindow(request)) chargedInTheWindow.push(request)
      else problems.push(`${named(request)} was charged and not answered: ${request.ending} ${request.errorCode ?? ''}`)
    }
  }
  for (const row of unexplained) problems.push(`${row.request_id} was charged and never asked for`)
  return { problems, chargedInTheWindow, uncharged }
}

/** By the id where one was received; without it by the usage, which is another for each request. */
function isFor(row: UsageRow, request: Sent): boolean {
  if (request.requestId !== null) return row.request_id === request.requestId
  return request.model !== 'penny' && row.model_id === request.model && row.output_tokens === outputTokensOf(request)
}

/**
 * Where a charge may stand although the last bytes did not arrive: the connection broke after it was safe. So the content of a stream must
 * have arrived by then. A gateway that could not commit in time says `settlement_unavailable`, and cannot call back what was under way.
 */
function isInTheWindow(request: Sent): boolean {
  const { ending, stream, contentIsWhole } = request
  if (ending === 'cut' || ending === 'unanswered') return !stream || contentIsWhole
  return isToldUnsettled(request)
}

function isToldUnsettled({ errorCode }: Sent): boolean {
  return errorCode === 'settlement_unavailable'
}

function named({ tag, node, stream, requestId }: Sent): string {
  return `${stream ? 'stream' : 'request'} ${tag} at ${node} (${requestId ?? 'no id'})`
}
