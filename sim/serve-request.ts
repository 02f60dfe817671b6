import { createHash } from 'node:crypto'
import type { Caller } from '../src/base/domain/caller.ts'
import type { ChatJob } from '../src/base/domain/chat-job.ts'
import type { Answer, Hold, Outcome, Ticket } from '../src/base/domain/handoff.ts'
import type { Offer } from '../src/base/domain/offer.ts'
import { Unserved } from '../src/base/domain/upstream-failure.ts'
import { CancelSource } from '../src/base/runtime/cancel-signal.ts'
import { uncounted } from '../src/base/runtime/counted-memory.ts'
import type { Settlement } from '../src/money/ledger/settlement/settlement.ts'
import { eligible } from '../src/request/admit/eligible.ts'
import { completeOnce } from '../src/request/chat/complete-once.ts'
import type { EventSink, Served, ServedBy } from '../src/request/chat/completion-request.ts'
import { dispatch } from '../src/request/dispatch/dispatch.ts'
import { route } from '../src/request/route/route.ts'
import { type SettlementWatch, settle } from '../src/request/settle/settle.ts'
import { chatDialect } from '../src/wire/dialects/chat/chat-dialect.ts'
import { CheckTime } from '../src/wire/dialects/fit/check-time.ts'
import { ATTEMPTS_MAX } from './breaker-oracle.ts'
import type { Gateway } from './gateway.ts'
import type { Oracle } from './oracle.ts'
import type { RequestPlan } from './plan.ts'
import { pricedAt, rawOf, receiptOf } from './pricing.ts'
import type { RequestRecord } from './request-record.ts'
import type { Upstreams } from './upstreams.ts'
import type { Fact, World } from './world.ts'

/** Serves a request through a gateway, up to the last byte at its client. Calls `onEnd` when the request ends, unless its process died before. */
export type ServeRequest = (gateway: Gateway, request: RequestPlan, onEnd: () => void) => Promise<RequestRecord>

export function createServeRequest(world: World, oracle: Oracle, upstreams: Upstreams): ServeRequest {
  const { random } = world
  return serveRequest

  /** One request as src/start/compose/ wires it, with its Idempotency-Key if it has one. */
  async function serveRequest(gateway: Gateway, request: RequestPlan, onEnd: () => void): Promise<RequestRecord> {
    const { process, claims } = gateway
    const { admission, customer, idempotency, pricing } = request
    const record: RequestRecord = {
      admission,
      customer,
      process,
      volume: gateway.volume,
      state: 'asked',
      leaseId: undefined,
      heldNanos: 0n,
      settlement: undefined,
      idempotency,
      holdsKey: false,
      isKeyInUse: false,
      sentText: undefined,
      askedAtMs: world.nowMs,
      voidedAtMs: 0,
      lossesAtAnswer: 0,
    }
    oracle.asked(record)
    const note = (what: string, ...facts: Fact[]) => world.note(process.name, shortId(record), what, ...facts)
    try {
      const client = new Client(record)
      if (idempotency === null) {
        await complete(gateway, request, record, note, client)
        await answered(record)
      } else {
        const served = await completeOnce(
          {
            claims: {
              ...claims,
              async claim(claim) {
                const claimed = await claims.claim(claim)
                if (process.isAlive) oracle.claimed(record, claimed)
                note('claims', claimed.kind)
                return claimed
              },
            },
            complete: async ({ watch }, events) => {
              try {
                const completed = await complete(gateway, request, record, note, events, watch)
                if (completed.whole !== null) record.holdsKey = false
                return completed
              } catch (failure) {
                if (process.isAlive) record.holdsKey = false
                throw failure
              }
            },
            refuseExhausted() {
              const refused = gateway.ledger.refusalOf({ ...admission, ask: null })
              if (refused === undefined) return
              oracle.admitted(record, refused)
              throw new Error(refused.kind)
            },
            async count() {
              const result = await gateway.ledger.admit({ ...admission, ask: null })
              if (process.isAlive) oracle.admitted(record, result)
            },
            onFault: (_, fault) => note('its key keeps its state', String(fault)),
          },
          {
            caller: {
              customerId: customer.customerId,
              keyId: admission.keyId,
              access: { allowedModels: null },
            } as Caller,
            job: pricing.job,
            dialect: chatDialect,
            signal: new CancelSource(),
            memory: uncounted,
            requestId: admission.requestId,
            key: idempotency.key,
            bodyHash: createHash('sha256').update(idempotency.body).digest(),
          },
          client,
        )
        if (served.replayOf !== undefined) note('replays', served.replayOf)
        else await answered(record)
      }
    } catch (error) {
      if (!process.isAlive) return record
      if (error instanceof TypeError) world.fail('errors_are_handled', String(error.stack))
      // A client that left gets no answer that could promise anything: its charge stays.
      if (record.state === 'settling' && record.settlement?.outcome !== 'client_gone') oracle.voided(record)
      else if (record.state === 'asked') oracle.refused(record)
      note(record.state, String(error))
    } finally {
      if (process.isAlive) onEnd()
    }
    return record
  }

  /** The steps of src/request/chat/complete.ts. */
  async function complete(
    gateway: Gateway,
    request: RequestPlan,
    record: RequestRecord,
    note: (what: string, ...facts: Fact[]) => void,
    events: EventSink,
    watch?: SettlementWatch,
  ): Promise<Served> {
    const { process, ledger, breaker, retryBudget } = gateway
    const { leaves } = request
    const { scheduler } = process
    const startedAtEpochMs = scheduler.epochMs()
    const pricing = pricedAt(request.pricing, startedAtEpochMs)
    const { job, hold } = pricing
    const { wantNanos, floorNanos } = hold
    const admission = { ...request.admission, ask: request.admission.ask && { wantNanos, floorNanos } }
    record.admission = admission
    const startedMonotonicMs = scheduler.monotonicMs()
    const health = breaker.health.of(admission.customerId)
    const choice = eligible(pricing.offers, job, health)
    breaker.checkEligible(pricing.offers, choice, admission.customerId)
    const result = await ledger.admit(admission)
    assertAlive()
    oracle.admitted(record, result)
    note(result.kind, result.kind === 'granted' ? result.hold.leaseId : null)
    if (result.kind !== 'granted') throw new Error(result.kind)

    const { requestId, customerId, keyId, modelId, limits } = admission
    const ticket: Ticket = {
      requestId,
      hold: result.hold,
      caller: { customerId, keyId, limits } as Caller,
      startedAtEpochMs,
      startedMonotonicMs,
      label: null,
      models: [modelId],
      ...choice,
      maxTokens: hold.maxTokens,
      clamp: null,
    }
    const stop = new CancelSource()
    if (leaves !== null && leaves !== 'midway') scheduler.after(leaves.afterMs, () => stop.abort('left'))
    const settleAs = async (outcome: Outcome, offer: Offer | null) => {
      const raw = {
        async settle(settlement: Settlement, hold: Hold) {
          const measured = rawOf(settlement, pricing, offer)
          oracle.settling(record, measured, pricing, offer)
          note('settles', measured.costNanos)
          await ledger.settle(measured, hold)
          assertAlive()
          if (!isSettledAgain(requestId)) return
          // The conductor does this when something fails after its settlement. It must have no effect.
          await ledger
            .settle({ ...measured, ...free }, hold)
            .catch(fault => note('second settlement refused', String(fault)))
          assertAlive()
        },
      }
      const receipt = receiptOf(pricing, offer, outcome, result.hold.nanos)
      return settle({ ledger: raw, clock: scheduler }, ticket, receipt, null, { job, watch })
    }

    let answer: Answer
    try {
      const ranked = route(ticket, job, { health }, random.next)
      breaker.checkPlan(ranked)
      const upstream = upstreams.clientFor(process, {
        customerId,
        runsMs: request.runsMs,
        isRejected: pricing.share === 0,
      })
      const dispatching = {
        upstream,
        health: breaker.health,
        clock: scheduler,
        attemptsMax: ATTEMPTS_MAX,
        retryBudget,
        pseudonymise: (job: ChatJob) => job,
        noteWork: () => {},
        checkTime: new CheckTime(scheduler),
      }
      answer = await dispatch(dispatching, ranked, job, { signal: stop, memory: uncounted })
      assertAlive()
      breaker.checkAttempts(answer.attempts)
    } catch (failure) {
      assertAlive()
      if (failure instanceof Unserved) breaker.checkAttempts(failure.attempts)
      await settleAs('unserved', null)
      oracle.answered(record)
      throw failure
    }
    const { offer } = answer
    note('served by', offer.offerId)
    const servedBy: ServedBy = {
      modelId,
      provider: offer.endpoint.kind,
      hosterId: null,
      maxTokens: null,
      droppedFields: [],
      changedFields: [],
    }
    if (answer.kind !== 'stream') {
      const costNanos = await settleAs('served', offer)
      record.sentText = `answer ${requestId}`
      return { servedBy, whole: { body: record.sentText, costNanos } }
    }
    const { chunks } = answer
    try {
      await events.open(servedBy)
      await events.write(`answer ${requestId}`)
      let outcome: Outcome = 'served'
      try {
        await chunks.read(() => {
          if (leaves !== 'midway') return
          outcome = 'client_gone'
          chunks.leave()
        })
      } catch (failure) {
        assertAlive()
        await settleAs('interrupted', null)
        oracle.answered(record)
        throw failure
      }
      assertAlive()
      await settleAs(outcome, offer)
      await events.write(LAST_EVENT)
      return { servedBy, whole: null }
    } finally {
      if (process.isAlive) record.holdsKey = false
    }

    /** Ends the code of a dead process. */
    function assertAlive(): void {
      if (!process.isAlive) throw new Error('dead')
    }
  }

  /** The last byte has reached the client. */
  async function answered(record: RequestRecord): Promise<void> {
    if (!record.process.isAlive) return
    oracle.answered(record)
    world.note(record.process.name, shortId(record), 'answered')
  }
}

/** The client of a streamed answer. */
class Client implements EventSink {
  readonly #record: RequestRecord
  #text = ''
  #isReplay = false

  constructor(record: RequestRecord) {
    this.#record = record
  }

  async open(_servedBy: ServedBy, replayOf?: string): Promise<void> {
    this.#isReplay = replayOf !== undefined
  }

  readonly write = (events: string): void => {
    if (this.#isReplay) return
    this.#text += events
    this.#record.sentText = this.#text
  }
}

/** Ends a complete stream, see `StreamFormat.isComplete`. */
const LAST_EVENT = 'data: [DONE]\n\n'

/** Every eighth. */
function isSettledAgain(requestId: string): boolean {
  return Number.parseInt(requestId.slice(-1), 16) % 8 === 0
}

const free = {
  inputTokens: 0,
  outputTokens: 0,
  parts: null,
  costNanos: 0n,
  hosterShareNanos: 0n,
  feeNanos: 0n,
  writeoffNanos: 0n,
}

function shortId({ admission }: RequestRecord): string {
  return `a${Number.parseInt(admission.requestId.slice(-12), 16)}`
}
