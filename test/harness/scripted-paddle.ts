import { createHmac, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { PaddleAdjustment, PaddleTransaction } from '../../src/money/payments/paddle/paddle-client.ts'

type Writable<T> = { -readonly [Key in keyof T]: T[Key] }
type Transaction = Writable<PaddleTransaction> & {
  details: { totals: { subtotal: string; discount: string; tax: string; total: string; fee: string | null } }
}
type Adjustment = Writable<PaddleAdjustment>

export const PADDLE_SECRET = 'pdl_ntfset_test'

/** Paddle on loopback: transactions, adjustments, pages of lists, and signed events. */
export interface ScriptedPaddle {
  readonly url: string
  /** All calls fail with 503. */
  isDown: boolean
  /** What is created exists, and the answer is 500. */
  losesAnswers: boolean
  readonly transactions: ReadonlyMap<string, Transaction>
  /** These change a transaction, and return the event. */
  pay(id: string, more?: { tax?: number; discount?: number; currency?: string; ourId?: string }): string
  refuse(id: string): string
  adjust(id: string, action: string, amountMinor: number, status?: Adjustment['status']): { id: string; event: string }
  decide(adjustmentId: string, status: Adjustment['status']): string
  close(): Promise<void>
}

export async function startScriptedPaddle(): Promise<ScriptedPaddle> {
  const transactions = new Map<string, Transaction>()
  const adjustments: Adjustment[] = []
  let made = 0
  const idOf = (prefix: string) => `${prefix}_${String(++made).padStart(6, '0')}${randomBytes(4).toString('hex')}`
  const eventOf = (event_type: string, data: object) =>
    JSON.stringify({ event_id: idOf('evt'), event_type, occurred_at: new Date().toISOString(), data })

  const server = createServer(async (request, response) => {
    const send = (status: number, body: object) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
    const body = await textOf(request)
    const url = new URL(request.url!, paddle.url)
    const { pathname, searchParams } = url
    if (paddle.isDown) return send(503, { error: { code: 'service_unavailable' } })
    if (request.headers.authorization !== 'Bearer pdl_sdbx_apikey_x') return send(403, { error: { code: 'forbidden' } })
    const page = <T extends { id: string }>(all: readonly T[]) => {
      // Two on a page, so that every list has pages.
      const start = all.findIndex(({ id }) => id === searchParams.get('after')) + 1
      const data = all.slice(start, start + 2)
      const next = new URL(url)
      if (data.length > 0) next.searchParams.set('after', data.at(-1)!.id)
      const has_more = start + data.length < all.length
      send(200, { data, meta: { pagination: { per_page: 2, has_more, next: next.href } } })
    }
    if (pathname === '/adjustments') {
      const id = searchParams.get('id')
      return page(adjustments.filter(each => id === null || each.id === id).toReversed())
    }
    if (request.method === 'POST' && pathname === '/transactions') {
      const { items, custom_data, currency_code } = JSON.parse(body) as {
        items: [{ price: { unit_price: { amount: string } } }]
        custom_data: unknown
        currency_code: string
      }
      const { amount } = items[0].price.unit_price
      const id = idOf('txn')
      transactions.set(id, {
        id,
        status: 'ready',
        customer_id: null,
        custom_data,
        currency_code,
        created_at: new Date().toISOString(),
        billed_at: null,
        checkout: { url: `https://shop.example/pay?_ptxn=${id}` },
        details: { totals: { subtotal: amount, discount: '0', tax: '0', total: amount, fee: null } },
      })
      return paddle.losesAnswers ? send(500, {}) : send(201, { data: transactions.get(id) })
    }
    if (pathname === '/transactions') {
      const within = (value: string | null, field: string) =>
        [...searchParams].every(([name, bound]) => {
          if (!name.startsWith(`${field}[`)) return true
          return value !== null && (name.includes('G') ? value >= bound : value <= bound)
        })
      const statuses = searchParams.get('status')?.split(',')
      return page(
        [...transactions.values()].filter(
          ({ created_at, billed_at, status }) =>
            within(created_at, 'created_at') && within(billed_at, 'billed_at') && statuses?.includes(status) !== false,
        ),
      )
    }
    const found = transactions.get(pathname.replace('/transactions/', ''))
    if (found === undefined) return send(404, { error: { code: 'not_found' } })
    const own = adjustments.filter(({ transaction_id }) => transaction_id === found.id)
    return send(200, { data: { ...found, ...(searchParams.get('include') === 'adjustments' && { adjustments: own }) } })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))

  const paddle: ScriptedPaddle = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    isDown: false,
    losesAnswers: false,
    transactions,
    pay(id, { tax = 0, discount = 0, currency, ourId } = {}) {
      const found = transactions.get(id)!
      const { totals } = found.details
      found.status = 'completed'
      found.customer_id = 'ctm_1'
      found.billed_at = new Date().toISOString()
      if (currency !== undefined) found.currency_code = currency
      if (ourId !== undefined) found.custom_data = { payment_id: ourId }
      const total = String(Number(totals.subtotal) - discount + tax)
      Object.assign(totals, { discount: String(discount), tax: String(tax), total, fee: '175' })
      return eventOf('transaction.completed', found)
    },
    refuse(id) {
      transactions.get(id)!.status = 'past_due'
      return eventOf('transaction.past_due', transactions.get(id)!)
    },
    adjust(id, action, amountMinor, status = 'approved') {
      const adjustment = {
        id: idOf('adj'),
        action,
        transaction_id: id,
        status,
        currency_code: 'USD',
        created_at: new Date().toISOString(),
        totals: { total: String(amountMinor) },
      }
      adjustments.push(adjustment)
      return { id: adjustment.id, event: eventOf('adjustment.created', adjustment) }
    },
    decide(adjustmentId, status) {
      const adjustment = adjustments.find(({ id }) => id === adjustmentId)!
      adjustment.status = status
      return eventOf('adjustment.updated', adjustment)
    },
    close: () => new Promise(resolve => server.close(() => resolve())),
  }
  return paddle
}

/** Sends an event to the gateway as Paddle does. @param options.signed what is signed, if another text than what is sent */
export function sendPaddleEvent(
  gatewayUrl: string,
  event: string,
  {
    secret = PADDLE_SECRET,
    signed = event,
    ageSeconds = 0,
  }: { secret?: string; signed?: string; ageSeconds?: number } = {},
): Promise<Response> {
  const seconds = Math.floor(Date.now() / 1_000) - ageSeconds
  const hash = createHmac('sha256', secret).update(`${seconds}:${signed}`).digest('hex')
  return fetch(`${gatewayUrl}/webhooks/paddle`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'paddle-signature': `ts=${seconds};h1=${hash}` },
    body: event,
  })
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += chunk
  return text
}
