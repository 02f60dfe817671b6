import type { Pool } from '../src/base/db/pool.ts'
import { refundRequest } from '../src/money/ledger/accounts/refund-request.ts'
import type { Gateway } from './gateway.ts'
import { percentile } from './percentile.ts'
import { wholeBody } from './request-bodies.ts'

export type PagingFigures = {
  pages: number
  rows: number
  p50Ms: number
  p99Ms: number
  slowestMs: number
  receiptP99Ms: number
  /** Requests that arrived between the first page and the last. All are newer than the listed ones. */
  arrived: number
  refunded: number
}

const PAGE = 100
/** Models an incident of a busy customer: support refunds some requests while the customer pages through them. */
const PAGES_PER_REFUND = 10

/**
 * Pages through up to `rowsMax` requests of a customer, newest first, and reads the receipt of the last request of each page. At the same
 * time, new requests are sent and settled, and some requests on earlier and later pages are refunded. Throws unless the pages list exactly
 * the requests that existed before the first page, once each and in order.
 */
export async function measurePaging(
  gateway: Gateway,
  {
    pool,
    customerId,
    headers,
    rowsMax,
  }: { pool: Pool; customerId: string; headers: Record<string, string>; rowsMax: number },
): Promise<PagingFigures> {
  const { rows: before } = await pool.query<{ request_id: string }>(
    'SELECT request_id FROM usage_event WHERE customer_id = $1 ORDER BY request_id DESC LIMIT $2',
    [customerId, rowsMax],
  )
  const timed = async (path: string) => {
    const startedMs = performance.now()
    const response = await fetch(`${gateway.origin}${path}`, { headers })
    const text = await response.text()
    if (response.status !== 200) throw new Error(`${path} answered ${response.status}: ${text}`)
    return { tookMs: performance.now() - startedMs, text }
  }
  let arriving: ReturnType<typeof keepSending> | undefined
  const pagesMs: number[] = []
  const receiptsMs: number[] = []
  let refunded = 0
  const refund = async (requestId: string | undefined) => {
    if (requestId === undefined) return
    const order = { customerId, requestId, amountNanos: 1n, reason: 'a benchmark' }
    if ((await refundRequest(pool, order)).kind === 'refunded') refunded++
  }
  try {
    let path = `/v1/usage/requests?limit=${PAGE}`
    for (let listed = 0; listed < before.length; ) {
      const { tookMs, text } = await timed(path)
      const page = JSON.parse(text) as { data: { id: string }[]; next_cursor: string | null }
      pagesMs.push(tookMs)
      arriving ??= keepSending(gateway, headers)
      for (const { id } of page.data.slice(0, before.length - listed)) {
        const expected = before[listed++]!.request_id
        if (id !== expected) throw new Error(`request ${listed} of the list is ${id}, expected ${expected}`)
      }
      receiptsMs.push((await timed(`/v1/usage/requests/${page.data.at(-1)!.id}`)).tookMs)
      if (pagesMs.length % PAGES_PER_REFUND === 0) {
        await refund(before[listed - 1]?.request_id)
        await refund(before[listed + PAGE]?.request_id)
      }
      if (page.next_cursor === null && listed < before.length)
        throw new Error(`the list ended after ${listed} requests`)
      path = `/v1/usage/requests?limit=${PAGE}&cursor=${page.next_cursor}`
    }
  } finally {
    arriving?.stop()
  }
  const arrived = (await arriving?.answered) ?? 0
  const newest = JSON.parse((await timed('/v1/usage/requests?limit=1')).text) as { data: [{ id: string }] }
  if (arrived < pagesMs.length / PAGES_PER_REFUND || newest.data[0].id <= before[0]!.request_id) {
    throw new Error(`${arrived} requests arrived while ${pagesMs.length} pages were read: too few to prove anything`)
  }
  pagesMs.sort((a, b) => a - b)
  receiptsMs.sort((a, b) => a - b)
  return {
    pages: pagesMs.length,
    rows: before.length,
    p50Ms: percentile(pagesMs, 0.5),
    p99Ms: percentile(pagesMs, 0.99),
    slowestMs: pagesMs.at(-1)!,
    receiptP99Ms: percentile(receiptsMs, 0.99),
    arrived,
    refunded,
  }
}

/** Sends one request after the other until stopped; `answered` resolves with their number. */
function keepSending(
  gateway: Gateway,
  headers: Record<string, string>,
): { stop: () => void; answered: Promise<number> } {
  let isSending = true
  const send = async () => {
    let answered = 0
    while (isSending) {
      const response = await fetch(`${gateway.origin}/v1/chat/completions`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: wholeBody,
      })
      const text = await response.text()
      if (response.status !== 200) throw new Error(`a chat answered ${response.status}: ${text}`)
      answered++
      await new Promise(resolve => setTimeout(resolve, PAUSE_MS))
    }
    return answered
  }
  const answered = send()
  // A failure is reported where `answered` is awaited.
  answered.catch(() => {})
  return {
    stop() {
      isSending = false
    },
    answered,
  }
}

/** About 40 requests per second: a busy customer on an otherwise idle gateway. */
const PAUSE_MS = 20
