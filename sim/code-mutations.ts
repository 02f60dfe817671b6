import type { Mutation } from './mutations.ts'

/** A bug in code that the simulator does not run, or that needs a coincidence which its seeds do not bring about. */
export interface CodeMutation extends Mutation {
  /** The test file that must find it, relative to the root of the repository. */
  readonly test: string
}

const sync = 'src/money/payments/payment-sync.ts'
const comparison = 'src/money/payments/compare-charges.ts'
const findAttempt = 'src/money/payments/stripe/find-attempt.ts'
const stripeProvider = 'src/money/payments/stripe/stripe-provider.ts'
const stripeEvents = 'src/money/payments/stripe/read-event.ts'
const connect = 'src/money/payouts/stripe/stripe-connect-driver.ts'
const lostAnswers = 'test/payments/lost-answers.test.ts'
const payouts = 'test/payouts/stripe-connect.test.ts'

/** Bugs in the code between the books and a provider. `npm run sim -- --prove-code` runs the test of each. */
export const codeMutations: readonly CodeMutation[] = [
  {
    id: 'code-charge-not-looked-for',
    bug: 'a charge without an answer is made again when the provider has forgotten its key',
    file: sync,
    find: 'let started = await find()',
    replace: 'let started: Awaited<ReturnType<typeof find>> = null',
    test: lostAnswers,
  },
  {
    id: 'code-charge-made-when-not-found',
    bug: 'a charge is made again while the provider does not answer what it has',
    file: sync,
    find: 'let started = await find()',
    replace: 'let started = await find().catch(() => null)',
    test: lostAnswers,
  },
  {
    id: 'code-only-paid-charges-adopted',
    bug: 'a charge that is not decided is made again',
    file: findAttempt,
    find: 'await client(stripe => listAll(stripe.paymentIntents.list(filter)))).filter(isItsOwn)',
    replace:
      "await client(stripe => listAll(stripe.paymentIntents.list(filter)))).filter(each => isItsOwn(each) && each.status === 'succeeded')",
    test: lostAnswers,
  },
  {
    id: 'code-charge-of-another-mode',
    bug: 'a payment of the test mode is charged by a live account',
    file: sync,
    find: 'if (payment.isLive !== driver.isLive)',
    replace: 'if (false as boolean)',
    test: lostAnswers,
  },
  {
    id: 'code-refund-not-looked-for',
    bug: 'a refund without an answer is made again when the provider has forgotten its key',
    file: stripeProvider,
    find: 'if (await isMade()) return',
    replace: '',
    test: lostAnswers,
  },
  {
    id: 'code-second-charge-not-listed',
    bug: 'a second charge of a payment is not listed',
    file: comparison,
    find: "if (booked.isCredited) return { problem: 'second_charge', paymentId: payment.paymentId }",
    replace: 'if (booked.isCredited) return null',
    test: lostAnswers,
  },
  {
    id: 'code-credit-without-charge-not-listed',
    bug: 'credit that the provider has no charge for is not listed',
    file: comparison,
    find: 'if (providerRef !== null && (await isPaid(driver.provider, providerRef, paymentId))) {',
    replace: 'if (true as boolean) {',
    test: lostAnswers,
  },
  {
    id: 'code-account-not-looked-for',
    bug: 'a hoster gets a second account when the answer to the first one was lost',
    file: connect,
    find: 'if (earlier !== undefined) return earlier.id',
    replace: '',
    test: payouts,
  },
  {
    id: 'code-event-from-the-future',
    bug: 'a signed event that is dated ahead is accepted until long after its time',
    file: stripeEvents,
    find: '  requireNotFromFuture(signature)\n',
    replace: '',
    test: 'test/payments/stripe.test.ts',
  },
  {
    id: 'code-event-that-is-no-object',
    bug: 'a signed body that is no event is a failure of the gateway',
    file: 'src/money/payments/event-body.ts',
    find: 'if (isJsonObject(event)) return event',
    replace: 'if (true as boolean) return event as JsonObject',
    test: 'test/payments/hostile-events.test.ts',
  },
  {
    id: 'code-throttle-in-any-order',
    bug: 'a redemption and one that takes its count back wait for each other',
    file: 'src/identity/people/sign-in-throttle.ts',
    find: 'ANY ($1) ORDER BY subject FOR UPDATE`',
    replace: 'ANY ($1) ORDER BY subject DESC FOR UPDATE`',
    test: 'test/regression/issue-35-lock-order.test.ts',
  },
  {
    id: 'code-jit-as-configured',
    bug: 'PostgreSQL compiles the plans of settlements, each time for longer than they take',
    file: 'src/base/db/session-settings.ts',
    find: "  jit: 'off',\n",
    replace: '',
    test: 'test/db/pool.test.ts',
  },
  // A failover within the seconds that the answer to a look-up is late: not found by 5,000 seeds.
  {
    id: 'code-recent-found-when-answered',
    bug: 'charges that are seconds old stay lost after a failover when the answer to the look-up before it was late',
    file: 'src/money/ledger/settlement/recent-settlements.ts',
    find: 'this.#foundAtMs = askedAtMs',
    replace: 'this.#foundAtMs = this.#monotonicMs()',
    test: 'src/money/ledger/settlement/recent-settlements.test.ts',
  },
  {
    id: 'code-recent-forgets-the-earliest-batches',
    bug: 'charges that are settled again and lost by the next failover stay lost when many batches follow them',
    file: 'src/money/ledger/settlement/recent-settlements.ts',
    find: '.filter((_, at) => at % 2 === 0 || at >= this.#latest.length - BATCHES_AGAIN)',
    replace: '.slice(-BATCHES_MAX)',
    test: 'src/money/ledger/settlement/recent-settlements.test.ts',
  },
  {
    id: 'code-recent-takes-a-duplicate-for-its-batch',
    bug: 'charges that a failover lost stay lost when the last one of their batch was a duplicate',
    file: 'src/money/ledger/settlement/recent-settlements.ts',
    find: "if (effect === 'duplicate') lastDuplicate = record",
    replace: 'if (effect === undefined) lastDuplicate = record',
    test: 'src/money/ledger/settlement/recent-settlements.test.ts',
  },
]
