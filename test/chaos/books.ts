import { costNanos } from '../../src/base/domain/money.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { type ChaosCustomer, chargeOf, models, type Sent, tokensOf } from './customer.ts'
import { eventually } from './eventually.ts'
import type { GatewayWorld } from './world.ts'

/** Losses that the fault of a scenario may cause. */
export interface Allowed {
  /** Complete answers that may be free: their node lost its disk, or slept longer than its leases lasted. */
  readonly uncharged?: (sent: Sent) => boolean
  /** Whether the platform may write off costs. Default false. */
  readonly writeoffs?: boolean
}

/** How many of the answers that are still missing are named. */
const NAMED_MAX = 5

export interface Books {
  /** Descriptions of problems; empty when all is well. */
  readonly problems: readonly string[]
  /** Charged although the client did not receive the last bytes: the process died, or timed out, after the charge was safe. */
  readonly truncated: readonly Sent[]
  /** Complete answers without a charge. */
  readonly uncharged: readonly Sent[]
}

/**
 * Waits until every complete answer of these customers is charged and none of their money is held any more. Resolves with the milliseconds
 * that this took. An idle node keeps a lease for up to two minutes (see `openWindowsAhead`), after a fault that may take as long.
 * Throws after 240 s.
 */
export async function converged(
  world: GatewayWorld,
  customers: readonly ChaosCustomer[],
  allowed: Allowed = {},
): Promise<number> {
  const ids = customers.map(customer => customer.customerId)
  let rest = ''
  try {
    return await eventually(
      'the books converge',
      async () => {
        rest = await unfinished(world, customers, ids, allowed).catch((error: Error) => error.message)
        return rest === ''
      },
      { timeoutMs: 240_000 },
    )
  } catch (error) {
    throw new Error(`${(error as Error).message}; still open: ${rest}`)
  }
}

async function unfinished(
  { pool }: GatewayWorld,
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
    .filter(sent => sent.ending === 'complete' && !done.has(sent.requestId!) && allowed.uncharged?.(sent) !== true)
  if (missing.length === 0) return ''
  return `${missing.length} complete answers without a usage row, such as ${missing.slice(0, NAMED_MAX).map(named).join(', ')}`
}

/** Compares each request as its client saw it with the books, and audits the ledger. */
export async function checkBooks(
  world: GatewayWorld,
  customers: readonly ChaosCustomer[],
  allowed: Allowed = {},
): Promise<Books> {
  const problems: string[] = []
  const truncated: Sent[] = []
  const uncharged: Sent[] = []
  for (const customer of customers) {
    const books = await booksOf(world, customer, allowed)
    problems.push(...books.problems.map(problem => `${customer.customerId}: ${problem}`))
    truncated.push(...books.truncated)
    uncharged.push(...books.uncharged)
  }
  for (const { name, violations, examples } of await audit(world.pool)) {
    if (violations > 0) problems.push(`audit: ${name} ${violations} times, such as ${examples.join(', ')}`)
  }
  return { problems, truncated, uncharged }
}

interface UsageRow {
  readonly request_id: string
  readonly model_id: string
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cost_nanos: bigint
  readonly writeoff_nanos: bigint
  readonly outcome: string
  readonly usage_source: string
}

async function booksOf(
  { pool, modelServer }: GatewayWorld,
  { customerId, creditNanos, limits, sent }: ChaosCustomer,
  allowed: Allowed,
): Promise<Books> {
  const problems: string[] = []
  const truncated: Sent[] = []
  const uncharged: Sent[] = []
  const { rows } = await pool.query<UsageRow>(
    `SELECT request_id, model_id, input_tokens, output_tokens, cost_nanos, writeoff_nanos, outcome, usage_source
       FROM usage_event WHERE customer_id = $1`,
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
    problems.push(`balance ${balance.posted_nanos}, not credit ${creditNanos} minus charges ${spent}`)
  }
  if (balance.posted_nanos < balance.leased_nanos || balance.leased_nanos < 0n) {
    problems.push(`${balance.leased_nanos} held of a balance of ${balance.posted_nanos}`)
  }
  if (spent > limits.dailySpendCapNanos) problems.push(`charged ${spent}, more than its daily cap`)
  const served = modelServer.tagsOf(customerId).size
  if (served > limits.requestsPerDay)
    problems.push(`${served} requests reached the model server, more than its daily limit`)
  const writtenOff = rows.filter(row => row.writeoff_nanos > 0n && !isVoid(row, sent))
  if (writtenOff.length > 0 && allowed.writeoffs !== true) {
    const described = writtenOff.map(row => {
      const request = sent.find(({ requestId }) => requestId === row.request_id)
      const seen = request === undefined ? 'no known request' : `${named(request)}: ${request.ending}`
      return `${row.request_id} ${row.outcome} for ${row.model_id} (${seen})`
    })
    problems.push(`written off: ${described.join(', ')}`)
  }

  const unexplained = new Set(charged)
  for (const request of sent) {
    if (request.malformed !== null) problems.push(`${named(request)} got ${request.malformed}`)
    const mine = charged.filter(row => isFor(row, request))
    for (const row of mine) {
      unexplained.delete(row)
      if (row.cost_nanos !== chargeOf(request) && !(request.ending === 'left' && isChargeOfPart(row, request))) {
        problems.push(
          `${named(request)} (${request.ending}) was charged ${row.cost_nanos} as ${row.outcome} instead of ${chargeOf(request)}`,
        )
      }
    }
    if (request.ending === 'left' && mine.length <= 1) continue
    if (mine.length > 1) problems.push(`${named(request)} was charged ${mine.length} times`)
    else if (request.ending === 'complete' && mine.length === 0) {
      uncharged.push(request)
      if (allowed.uncharged?.(request) !== true)
        problems.push(`${named(request)} was answered completely and not charged`)
    } else if (request.ending !== 'complete' && mine.length === 1) {
      if (mayBeTruncated(request)) truncated.push(request)
      else problems.push(`${named(request)} was charged but not answered: ${request.ending} ${request.errorCode ?? ''}`)
    }
  }
  // A client that left before an answer has no request id, and its charge has other tokens than those of the whole answer.
  for (const request of sent.filter(({ ending, requestId }) => ending === 'left' && requestId === null)) {
    const row = [...unexplained].find(each => each.model_id === request.model && isChargeOfPart(each, request))
    if (row !== undefined) unexplained.delete(row)
  }
  for (const row of unexplained) problems.push(`${row.request_id} was charged but never sent`)
  return { problems, truncated, uncharged }
}

/**
 * Whether the charge could not be made safe in time, so that it is written off. The client receives an error, unless it has left: the answer was
 * whole, and only its end waited for the charge.
 */
function isVoid(row: UsageRow, sent: readonly Sent[]): boolean {
  const known = sent.find(({ requestId }) => requestId === row.request_id)
  if (known !== undefined && isSettlementUnavailable(known)) return true
  const isAnonymous =
    known === undefined &&
    sent.some(each => each.requestId === null && each.model === row.model_id && each.ending === 'left')
  return row.outcome === 'internal_error' && (known?.ending === 'left' || isAnonymous)
}

/**
 * Whether a row charges no more than a client can have received before it left, at the price of its tokens. An answer was served whole if the
 * client left between its finish reason and its usage; the gateway counts its tokens then.
 */
function isChargeOfPart(row: UsageRow, { model, words }: Sent): boolean {
  const isInPart = row.input_tokens <= INPUT_TOKENS_MAX && row.output_tokens <= words * TOKENS_OF_A_WORD_MAX
  const cost = costNanos(models[model].price, row.input_tokens, row.output_tokens)
  const isCounted = row.outcome === 'client_gone' || (row.outcome === 'served' && row.usage_source === 'gateway')
  return isCounted && isInPart && row.cost_nanos === cost
}

/** More than the gateway counts in any text of `textOf`, which may have one byte a token. */
const INPUT_TOKENS_MAX = 5_000
const TOKENS_OF_A_WORD_MAX = 4

/**
 * Matches by request id if the client received one, otherwise by the usage, which differs for each whole answer. The partial charge of a client
 * that left may have the same usage by chance; it is for no other request, and no row is for one that was not sent.
 */
function isFor(row: UsageRow, request: Sent): boolean {
  if (request.requestId !== null) return row.request_id === request.requestId
  if (request.ending === 'unsent' || (row.outcome === 'client_gone' && request.ending !== 'left')) return false
  const { input, output } = tokensOf(request)
  const isReported = row.input_tokens === input && row.output_tokens === output
  return request.model !== 'penny' && row.model_id === request.model && isReported
}

/**
 * Whether the request may be charged although its last bytes did not arrive. Either the connection broke after the charge was safe; then the
 * client has the full content of a stream. Or the gateway answered `settlement_unavailable` because it could not commit in time, and the
 * commit happened later.
 */
function mayBeTruncated(request: Sent): boolean {
  const { ending, stream, hasFullContent } = request
  if (ending === 'cut' || ending === 'unanswered') return !stream || hasFullContent
  return isSettlementUnavailable(request)
}

function isSettlementUnavailable({ errorCode }: Sent): boolean {
  return errorCode === 'settlement_unavailable'
}

function named({ tag, node, client, model, stream, requestId }: Sent): string {
  return `${stream ? 'stream' : 'request'} ${tag} of ${client} for ${model} at ${node} (${requestId ?? 'no id'})`
}
