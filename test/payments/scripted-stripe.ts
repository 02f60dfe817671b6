import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Stripe } from 'stripe'

export const WEBHOOK_SECRET = 'whsec_test'

type Json = Record<string, unknown>
interface Session {
  readonly id: string
  readonly object: 'checkout.session'
  status: 'open' | 'complete' | 'expired'
  payment_status: 'unpaid' | 'paid'
  amount_subtotal: number
  amount_total: number
  currency: string
  livemode: boolean
  url: string | null
  metadata: Record<string, string>
  payment_intent: string | null
  savesMethod: boolean
  /** In seconds, like all times of Stripe. */
  created: number
  paidAtS: number
}

interface Transfer {
  readonly id: string
  readonly object: 'transfer'
  amount: number
  amount_reversed: number
  currency: string
  destination: string
  livemode: boolean
  transfer_group: string
  metadata: Record<string, string>
  created: number
}

/** Enough of Stripe's API on loopback for the real package. Events are made by its methods and sent by the test. */
export interface ScriptedStripe {
  readonly url: string
  readonly sessions: ReadonlyMap<string, Session>
  /** The calls that created something, as `path idempotency-key`. */
  readonly writes: readonly string[]
  readonly looks: number
  /** Looks at this session fail with 500, until it is null again. */
  brokenSessionId: string | null
  /** Runs before each look is answered. */
  onLook: (() => Promise<void> | void) | null
  /** The payer pays. Returns the event. */
  pay(sessionId: string, more?: Partial<Session>): string
  expire(sessionId: string): string
  /** Refunds outside of the gateway. */
  refund(sessionId: string, amount: number): string
  dispute(sessionId: string): string
  /** Moves the funds of the dispute back. */
  winDispute(sessionId: string): string
  /** The currency in which Stripe takes its fees of payments: 'usd' unless the test changes it. */
  balanceCurrency: string
  /** Charges of saved methods fail. */
  declineCharges(isDeclined: boolean): void
  /** Refunds fail from now on. */
  refuseRefunds(): void
  /** Accounts of hosters. */
  readonly accounts: ReadonlyMap<string, Json>
  readonly transfers: ReadonlyMap<string, Transfer>
  /** The hoster has answered all questions. Returns the event. */
  finishAccount(accountId: string, fingerprint: string): string
  /** Changes an account. Returns the event. */
  changeAccount(accountId: string, change: Json): string
  /** The account exists no longer. Returns the event, which names it outside of its object. */
  closeAccount(accountId: string): string
  /** Transfers fail from now on, as without money. */
  refuseTransfers(isRefused: boolean): void
  /** While set, all calls about transfers fail with 500. */
  isBroken: boolean
  /** While set, nothing is done and every answer is 500. */
  isDown: boolean
  /** While set, lists fail with 500. */
  hasNoLists: boolean
  /** What is created by these calls exists, and the answer is 500. */
  losesAnswer: ((pathname: string) => boolean) | null
  /** Lists show nothing that is younger, ms. */
  listsAfterMs: number
  /** How many objects a page of a list has, at most. */
  pageSize: number
  nowMs: () => number
  /** Forgets idempotency keys, as Stripe does after a day. @param olderThanMs default: all */
  forgetKeys(olderThanMs?: number): void
  /** The payment intents of charges without a checkout, by id. */
  readonly charges: ReadonlyMap<string, Json>
  /** Charges outside of the gateway. Returns the payment intent. */
  addCharge(more: { amount: number; payment_id?: string; customer?: string; status?: string }): string
  /** What changes about a payment intent without a checkout. */
  changeCharge(intentId: string, change: Json): void
  /** Refunds a payment intent outside of the gateway. */
  refundCharge(intentId: string, amount: number): void
  refundsOf(intentId: string): readonly Json[]
  /** Runs before each transfer is answered. */
  onTransfer: (() => Promise<void> | void) | null
  /** Takes a part of a transfer back. */
  reverseTransfer(transferId: string, amount: number): string
  transferEvent(transferId: string): string
  close(): Promise<void>
}

export async function startScriptedStripe(): Promise<ScriptedStripe> {
  const sessions = new Map<string, Session>()
  const refunds = new Map<string, Json[]>()
  const disputes = new Map<string, Json[]>()
  const answers = new Map<string, { readonly made: Json; readonly atMs: number }>()
  const nowS = () => Math.floor(stripe.nowMs() / 1_000)
  const writes: string[] = []
  const state = { looks: 0, refusesRefunds: false, declines: false, refusesTransfers: false }
  const accounts = new Map<string, Json>()
  const closed = new Set<string>()
  const transfers = new Map<string, Transfer>()
  let events = 0
  const id = (prefix: string) => `${prefix}_${randomBytes(8).toString('hex')}`
  const eventOf = (type: string, object: object) =>
    JSON.stringify({ id: `evt_${++events}`, object: 'event', type, livemode: false, data: { object } })

  const server = createServer(async (request, response) => {
    const send = (status: number, body: object) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
    const form = new URLSearchParams(await textOf(request))
    const { pathname, searchParams } = new URL(request.url!, 'http://stripe')
    if (stripe.isBroken && pathname.startsWith('/v1/transfers')) {
      return send(500, { error: { type: 'api_error', message: 'broken' } })
    }
    // The package would try again by itself.
    const fail = () => {
      response.writeHead(500, { 'content-type': 'application/json', 'stripe-should-retry': 'false' })
      response.end(JSON.stringify({ error: { type: 'api_error', message: 'broken' } }))
    }
    if (stripe.isDown) return fail()
    const key = request.headers['idempotency-key'] as string | undefined
    if (request.method === 'POST') {
      const earlier = key === undefined ? undefined : answers.get(key)?.made
      if (earlier !== undefined) return stripe.losesAnswer?.(pathname) ? fail() : send(200, earlier)
      writes.push(`${pathname} ${key}`)
      const made = createAt(pathname, form)
      if ('error' in made) return send(pathname === '/v1/payment_intents' ? 402 : 400, made)
      if (key !== undefined) answers.set(key, { made, atMs: stripe.nowMs() })
      if (stripe.losesAnswer?.(pathname)) return fail()
      if (pathname === '/v1/transfers') await stripe.onTransfer?.()
      return send(200, made)
    }
    const found = (object: object | undefined) => {
      if (object !== undefined) return send(200, object)
      send(404, { error: { type: 'invalid_request_error', code: 'resource_missing', message: 'No such object.' } })
    }
    const named = decodeURIComponent(pathname.split('/').at(-1)!)
    /** A page of a list, the newest first. */
    const list = (all: readonly Json[]) => {
      if (stripe.hasNoLists) return fail()
      const bound = (name: string, otherwise: number) => Number(searchParams.get(`created[${name}]`) ?? otherwise)
      const shown = all
        .filter(each => {
          const created = each.created as number
          const isWithin =
            created >= bound('gte', 0) && created < bound('lt', Infinity) && created <= bound('lte', Infinity)
          return isWithin && created * 1_000 <= stripe.nowMs() - stripe.listsAfterMs
        })
        .filter(each =>
          ['payment_intent', 'customer', 'transfer_group'].every(
            name => !searchParams.has(name) || each[name] === searchParams.get(name),
          ),
        )
        .toSorted((a, b) => (b.created as number) - (a.created as number))
      const start = shown.findIndex(each => each.id === searchParams.get('starting_after')) + 1
      const data = shown.slice(start, start + Math.min(stripe.pageSize, Number(searchParams.get('limit') ?? 10)))
      return send(200, { object: 'list', url: pathname, data, has_more: start + data.length < shown.length })
    }
    if (pathname === '/v1/charges') return list(allCharges())
    if (pathname === '/v1/payment_intents')
      return list([...charges.values(), ...[...sessions.values()].flatMap(paidIntents)])
    if (pathname === '/v1/checkout/sessions') return list([...sessions.values()].map(each => ({ ...each })))
    if (pathname === '/v1/refunds') return list([...refunds.values()].flat())
    if (pathname === '/v1/disputes') return list([...disputes.values()].flat())
    if (pathname === '/v1/accounts') return list([...accounts.values()])
    if (pathname === '/v1/transfers') return list([...transfers.values()].map(each => ({ ...each })))
    if (pathname.startsWith('/v1/charges/')) return found(allCharges().find(each => each.id === named))
    if (pathname.startsWith('/v1/refunds/')) return found([...refunds.values()].flat().find(each => each.id === named))
    if (pathname.startsWith('/v1/disputes/'))
      return found([...disputes.values()].flat().find(each => each.id === named))
    if (pathname.startsWith('/v1/accounts/') && closed.has(named)) {
      const message = `The key does not have access to account '${named}' (or that account does not exist).`
      return send(403, { error: { type: 'invalid_request_error', code: 'account_invalid', message } })
    }
    if (pathname.startsWith('/v1/accounts/')) return found(accounts.get(named))
    if (pathname.startsWith('/v1/transfers/')) return found(transfers.get(named))
    if (pathname.startsWith('/v1/checkout/sessions/')) {
      if (pathname.endsWith(`/${stripe.brokenSessionId}`)) {
        return send(500, { error: { type: 'api_error', message: 'broken' } })
      }
      state.looks++
      const session = sessions.get(named)
      const shown = session && (searchParams.has('expand[0]') ? expanded(session) : { ...session })
      await stripe.onLook?.()
      return found(shown)
    }
    if (pathname.startsWith('/v1/payment_intents/')) {
      const session = [...sessions.values()].find(each => each.payment_intent === named)
      return found(charges.get(named) ?? (session && intentOf(session)))
    }
    return found(undefined)
  })

  const paidIntents = (session: Session) => (session.payment_intent === null ? [] : [intentOf(session)])

  /** The charges of all payment intents that were confirmed. */
  function allCharges(): Json[] {
    const intents = [...charges.values(), ...[...sessions.values()].flatMap(paidIntents)]
    return intents.flatMap(intent => {
      if (!['succeeded', 'processing'].includes(intent.status as string)) return []
      const returned = (refunds.get(intent.id as string) ?? []).reduce((sum, { amount }) => sum + (amount as number), 0)
      return [
        {
          ...intent,
          id: `ch_${intent.id}`,
          object: 'charge',
          payment_intent: intent.id,
          status: intent.status === 'processing' ? 'pending' : 'succeeded',
          amount_refunded: returned,
        },
      ]
    })
  }

  function createAt(pathname: string, form: URLSearchParams): Json {
    if (pathname === '/v1/checkout/sessions') return createSession(form)
    if (pathname === '/v1/payment_intents') return createCharge(form)
    if (pathname === '/v1/transfers') return createTransfer(form)
    if (pathname === '/v1/accounts') {
      const account = {
        id: id('acct'),
        object: 'account',
        capabilities: { transfers: 'inactive' },
        requirements: { currently_due: ['external_account'] },
        external_accounts: { object: 'list', data: [] },
        metadata: { hoster_id: form.get('metadata[hoster_id]') },
        created: nowS(),
      }
      accounts.set(account.id, account)
      return account
    }
    if (pathname === '/v1/account_links') {
      return { object: 'account_link', url: `https://connect.stripe.test/${form.get('account')}` }
    }
    return createRefund(form)
  }

  function createTransfer(form: URLSearchParams): Json {
    if (state.refusesTransfers) {
      return { error: { type: 'invalid_request_error', code: 'balance_insufficient', message: 'Insufficient funds.' } }
    }
    const account = accounts.get(form.get('destination')!)
    if (account === undefined) {
      return { error: { type: 'invalid_request_error', code: 'resource_missing', message: 'No such destination.' } }
    }
    if ((account.capabilities as Json).transfers !== 'active') {
      const message = 'The destination account needs the capability transfers.'
      return { error: { type: 'invalid_request_error', code: 'insufficient_capabilities_for_transfer', message } }
    }
    const transfer: Transfer = {
      id: id('tr'),
      object: 'transfer',
      amount: Number(form.get('amount')),
      amount_reversed: 0,
      currency: form.get('currency')!,
      destination: form.get('destination')!,
      livemode: false,
      transfer_group: form.get('transfer_group')!,
      metadata: { payout_id: form.get('metadata[payout_id]')! },
      created: nowS(),
    }
    transfers.set(transfer.id, transfer)
    return { ...transfer }
  }

  function createSession(form: URLSearchParams): Json {
    const cents = Number(form.get('line_items[0][price_data][unit_amount]'))
    const session: Session = {
      id: id('cs_test'),
      object: 'checkout.session',
      status: 'open',
      payment_status: 'unpaid',
      amount_subtotal: cents,
      amount_total: cents,
      currency: form.get('line_items[0][price_data][currency]')!,
      livemode: false,
      url: 'https://checkout.stripe.test/pay',
      metadata: { payment_id: form.get('metadata[payment_id]')! },
      payment_intent: null,
      savesMethod: form.get('payment_intent_data[setup_future_usage]') === 'off_session',
      created: nowS(),
      paidAtS: 0,
    }
    sessions.set(session.id, session)
    return { ...session }
  }

  const charges = new Map<string, Json>()

  function createCharge(form: URLSearchParams): Json {
    const intent = {
      id: id('pi'),
      object: 'payment_intent',
      status: state.declines ? 'requires_payment_method' : 'succeeded',
      amount: Number(form.get('amount')),
      currency: form.get('currency'),
      customer: form.get('customer'),
      created: nowS(),
      livemode: false,
      metadata: { payment_id: form.get('metadata[payment_id]') },
      last_payment_error: state.declines ? { message: 'Your card was declined.' } : null,
      latest_charge: state.declines
        ? null
        : {
            id: 'ch_2',
            receipt_url: 'https://receipt.stripe.test/2',
            balance_transaction: { currency: 'usd', fee: 103 },
          },
    }
    charges.set(intent.id, intent)
    return state.declines
      ? {
          error: {
            type: 'card_error',
            code: 'card_declined',
            message: 'Your card was declined.',
            payment_intent: intent,
          },
        }
      : intent
  }

  function createRefund(form: URLSearchParams): Json {
    if (state.refusesRefunds) return { error: { type: 'invalid_request_error', message: 'Charge is too old.' } }
    return addRefund(form.get('payment_intent')!, Number(form.get('amount')), {
      reversal_id: form.get('metadata[reversal_id]')!,
    })
  }

  function addRefund(intent: string, amount: number, metadata: Json): Json {
    const refund = {
      id: id('re'),
      object: 'refund',
      amount,
      currency: 'usd',
      status: 'succeeded',
      payment_intent: intent,
      metadata,
      created: nowS(),
    }
    refunds.set(intent, [...(refunds.get(intent) ?? []), refund])
    return refund
  }

  function intentOf({ payment_intent, metadata, savesMethod, amount_total, currency, paidAtS }: Session): Json {
    return {
      id: payment_intent,
      object: 'payment_intent',
      status: 'succeeded',
      amount: amount_total,
      currency,
      created: paidAtS,
      metadata,
      ...(savesMethod && {
        setup_future_usage: 'off_session',
        customer: 'cus_1',
        payment_method: {
          id: 'pm_1',
          type: 'card',
          card: { brand: 'visa', last4: '4242', exp_month: 4, exp_year: 2029, fingerprint: 'Xt5EWLLDS7FJjR1c' },
        },
      }),
      latest_charge: {
        id: 'ch_1',
        receipt_url: 'https://receipt.stripe.test/1',
        balance_transaction: { currency: stripe.balanceCurrency, fee: 103 },
      },
    }
  }

  function expanded(session: Session): Json {
    return {
      ...session,
      payment_intent: session.payment_intent === null ? null : intentOf(session),
      invoice: session.payment_intent === null ? null : { hosted_invoice_url: 'https://invoice.stripe.test/1' },
    }
  }

  const intentOfSession = (sessionId: string) => sessions.get(sessionId)!.payment_intent!
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const stripe: ScriptedStripe = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sessions,
    writes,
    get looks() {
      return state.looks
    },
    brokenSessionId: null,
    balanceCurrency: 'usd',
    onLook: null,
    pay(sessionId, more = {}) {
      const session = sessions.get(sessionId)!
      const paid = { status: 'complete', payment_status: 'paid', payment_intent: id('pi'), url: null, paidAtS: nowS() }
      Object.assign(session, paid, more)
      return eventOf('checkout.session.completed', session)
    },
    expire(sessionId) {
      const session = sessions.get(sessionId)!
      Object.assign(session, { status: 'expired', url: null })
      return eventOf('checkout.session.expired', session)
    },
    refund: (sessionId, amount) => eventOf('refund.created', addRefund(intentOfSession(sessionId), amount, {})),
    dispute(sessionId) {
      const intent = intentOfSession(sessionId)
      const amount = sessions.get(sessionId)!.amount_total
      const dispute = {
        id: id('du'),
        object: 'dispute',
        amount,
        payment_intent: intent,
        currency: 'usd',
        created: nowS(),
        balance_transactions: [{ amount: -amount, fee: 1_500, currency: 'usd' }],
      }
      disputes.set(intent, [dispute])
      return eventOf('charge.dispute.funds_withdrawn', dispute)
    },
    winDispute(sessionId) {
      const [dispute] = disputes.get(intentOfSession(sessionId))! as [{ amount: number; balance_transactions: Json[] }]
      dispute.balance_transactions.push({ amount: dispute.amount, fee: 0, currency: 'usd' })
      return eventOf('charge.dispute.funds_reinstated', dispute)
    },
    declineCharges(isDeclined) {
      state.declines = isDeclined
    },
    refuseRefunds() {
      state.refusesRefunds = true
    },
    accounts,
    transfers,
    finishAccount(accountId, fingerprint) {
      const account = accounts.get(accountId)!
      Object.assign(account, {
        capabilities: { transfers: 'active' },
        requirements: { currently_due: [] },
        external_accounts: { object: 'list', data: [{ object: 'bank_account', fingerprint }] },
      })
      return eventOf('account.updated', account)
    },
    changeAccount: (accountId, change) => eventOf('account.updated', Object.assign(accounts.get(accountId)!, change)),
    closeAccount(accountId) {
      accounts.delete(accountId)
      closed.add(accountId)
      const event = JSON.parse(
        eventOf('account.application.deauthorized', { id: 'ca_1', object: 'application' }),
      ) as Json
      return JSON.stringify({ ...event, account: accountId })
    },
    refuseTransfers(isRefused) {
      state.refusesTransfers = isRefused
    },
    isBroken: false,
    isDown: false,
    hasNoLists: false,
    losesAnswer: null,
    listsAfterMs: 0,
    pageSize: 100,
    nowMs: Date.now,
    forgetKeys(olderThanMs = Number.NEGATIVE_INFINITY) {
      for (const [key, { atMs }] of answers) if (stripe.nowMs() - atMs > olderThanMs) answers.delete(key)
    },
    charges,
    addCharge({ amount, payment_id, customer, status = 'succeeded' }) {
      const intent = {
        id: id('pi'),
        object: 'payment_intent',
        status,
        amount,
        currency: 'usd',
        customer: customer ?? null,
        created: nowS(),
        livemode: false,
        metadata: payment_id === undefined ? {} : { payment_id },
        last_payment_error: null,
        latest_charge: { id: 'ch_3', receipt_url: null, balance_transaction: { currency: 'usd', fee: 103 } },
      }
      charges.set(intent.id, intent)
      return intent.id
    },
    changeCharge: (intentId, change) => void Object.assign(charges.get(intentId)!, change),
    refundCharge: (intentId, amount) => void addRefund(intentId, amount, {}),
    refundsOf: intentId => refunds.get(intentId) ?? [],
    onTransfer: null,
    reverseTransfer(transferId, amount) {
      transfers.get(transferId)!.amount_reversed += amount
      return eventOf('transfer.reversed', transfers.get(transferId)!)
    },
    transferEvent: transferId => eventOf('transfer.created', transfers.get(transferId)!),
    close: () => new Promise<void>(resolve => server.close(() => resolve()) && server.closeAllConnections()),
  }
  return stripe
}

/**
 * Sends an event to the gateway as Stripe does.
 *
 * @param options.signed what is signed, if another text than what is sent
 * @param options.ageSeconds how long ago it was signed
 */
export function sendEvent(
  gatewayUrl: string,
  event: string,
  {
    secret = WEBHOOK_SECRET,
    signed = event,
    ageSeconds = 0,
  }: { secret?: string; signed?: string; ageSeconds?: number } = {},
): Promise<Response> {
  const timestamp = Math.floor(Date.now() / 1000) - ageSeconds
  const signature = new Stripe('sk_test_x').webhooks.generateTestHeaderString({ payload: signed, secret, timestamp })
  return fetch(`${gatewayUrl}/webhooks/stripe`, {
    method: 'POST',
    headers: { 'content-type': 'application/json; charset=utf-8', 'stripe-signature': signature },
    body: event,
  })
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += chunk
  return text
}
